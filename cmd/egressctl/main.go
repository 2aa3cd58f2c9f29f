// Command egressctl makes egress proxies on libvirt/KVM hosts from a shell. See its --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"golang.org/x/term"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/progress"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/probe"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/kvm2"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/static"
)

// version is set when a release is linked.
var version string

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the program at once.
	context.AfterFunc(ctx, stop)

	app := egressctl.App{
		Registry: provider.Registry{provider.TypeKVM2: kvm2.New, provider.TypeStatic: static.New},
		Axes:     map[string]map[string]string{provider.TypeKVM2: kvm2.Axes(), provider.TypeStatic: static.Axes()},
		In:       os.Stdin,
		Out:      os.Stdout,
		Err:      os.Stderr,
		Getenv:   os.Getenv,
		Terminal: stderrStyle(),
		Probe:    probe.Request,
		Version:  buildVersion(),
	}
	return app.Run(ctx, os.Args[1:])
}

// stderrStyle says how progress can be shown on standard error.
func stderrStyle() progress.Style {
	fd := int(os.Stderr.Fd())
	return progress.Style{
		Terminal: term.IsTerminal(fd) && os.Getenv("TERM") != "dumb",
		Width: func() int {
			width, _, err := term.GetSize(fd)
			if err != nil {
				return 0
			}
			return width
		},
	}
}

// buildVersion is the linked version, else what the Go toolchain noted of the module and its commit.
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
