// Package egressctl is the command line over the providers, with no cluster: it makes a VM on a
// configured host, turns it into a forward proxy, and looks after it.
//
// Standard output carries results only; progress, logs and errors go to standard error. See ExitCodes
// for what a script can rely on.
package egressctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/output"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/progress"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// App is egressctl with everything outside that it touches.
type App struct {
	// Registry has the providers.
	Registry provider.Registry
	// Axes has the axis codes of each type of provider, which choose the contract's rules for it.
	Axes map[string]map[string]string
	// In is read for "-" as a file. Results go to Out, all else to Err.
	In       io.Reader
	Out, Err io.Writer
	// Getenv is os.Getenv.
	Getenv func(string) string
	// Terminal says how Err shows progress.
	Terminal progress.Style
	// Probe makes one request through a proxy.
	Probe Prober
	// Version is what "egressctl version" prints.
	Version string
}

// Run executes one command and returns the exit code. When ctx ends, it is an interruption: Run
// returns within about a second and says how to go on.
func (a *App) Run(ctx context.Context, args []string) int {
	root := a.root() //nolint:contextcheck // the commands get it from cobra
	root.SetArgs(args)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return CodeOK
	}
	failed := asFailure(err)
	if interrupted(ctx) && failed.code != CodeInterrupted {
		failed = &failure{code: CodeInterrupted, err: errors.New("interrupted")}
	}
	// Nothing can be done about a stream for errors that is gone; the code still tells.
	_, _ = fmt.Fprintln(a.Err, "egressctl: "+output.Clean(strings.ReplaceAll(failed.Error(), "\n", "; ")))
	return failed.code
}
