package egressctl

import (
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/spf13/cobra"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/output"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/progress"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/state"
)

const rootHelp = `egressctl makes egress proxies: virtual machines on your own hosts that forward traffic, each from an
address of its own. It uses the same providers file and the same providers as the operator, and needs no
cluster.

The providers file is the one of --config, else of EGRESSCTL_CONFIG, else ./providers.yaml, else
$XDG_CONFIG_HOME/egressctl/providers.yaml (by default ~/.config/egressctl/providers.yaml).

What egressctl made, and how, it keeps in its state directory, for your eyes only (see --state-dir). The
directory also holds this installation's identity: an instance belongs to the installation that made it,
and no other egressctl or operator touches it.

` + ExitCodes

const rootExample = `  # Are the hosts fit for use?
  egressctl check

  # Make a proxy, wait until a request passes through it, use it
  egressctl create berlin-1 --entry kvm2-home --zone beelink \
    --auth-user alice --password-file alice.password
  curl -x http://192.0.2.10:3128 --proxy-user alice https://example.org

  # What is there, and away with it
  egressctl list
  egressctl delete berlin-1`

// runner is what the commands of one run share.
type runner struct {
	*App
	meter *progress.Meter
	log   logr.Logger

	configPath string
	stateDir   string
	entryName  string
	format     output.Format
	verbosity  int
	quiet      bool
}

func (a *App) root() *cobra.Command {
	r := &runner{App: a, format: output.FormatTable}
	cmd := &cobra.Command{
		Use:              "egressctl",
		Short:            "Make egress proxies on your own hosts",
		Long:             rootHelp,
		Example:          rootExample,
		SilenceErrors:    true,
		SilenceUsage:     true,
		PersistentPreRun: func(*cobra.Command, []string) { r.prepare() },
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&r.configPath, "config", "", "the providers `FILE` (default: EGRESSCTL_CONFIG, ./providers.yaml, then the XDG configuration)")
	flags.StringVar(&r.stateDir, "state-dir", "", "the `DIR` for identity and records (default: EGRESSCTL_STATE_DIR, then $XDG_STATE_HOME/egressctl, then ~/.local/state/egressctl)")
	flags.StringVar(&r.entryName, "entry", "", "the `NAME` of the provider entry; needed where the file has several")
	flags.VarP(&r.format, "output", "o", "how to print results: table, wide, json or yaml")
	flags.CountVarP(&r.verbosity, "verbose", "v", "log to standard error: -v the outcome of each call, -vv its details")
	flags.BoolVarP(&r.quiet, "quiet", "q", false, "show no progress and no hints")
	cmd.AddCommand(r.checkCommand(), r.createCommand(), r.getCommand(), r.listCommand(),
		r.deleteCommand(), r.renderCommand(), r.imagesCommand(), r.consoleCommand(), r.conformanceCommand(),
		r.versionCommand())
	r.completeFlags(cmd)
	return cmd
}

// prepare makes what depends on the flags.
func (r *runner) prepare() {
	style := r.Terminal
	style.Quiet = r.quiet
	r.meter = progress.New(r.Err, style)
	r.log = funcr.New(func(prefix, args string) {
		if prefix != "" {
			prefix += ": "
		}
		// A log that cannot be written must not end the work.
		_, _ = fmt.Fprintf(r.meter, "%s %s\n", time.Now().UTC().Format(time.RFC3339), output.Clean(prefix+args))
	}, funcr.Options{Verbosity: r.verbosity, RenderBuiltinsHook: withoutLevel})
}

// withoutLevel leaves a log line's level out: the flags chose it.
func withoutLevel(pairs []any) []any {
	out := []any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i] != "level" {
			out = append(out, pairs[i], pairs[i+1])
		}
	}
	return out
}

// hint tells a person what to do next.
func (r *runner) hint(format string, args ...any) {
	if !r.quiet {
		_, _ = fmt.Fprintf(r.meter, format+"\n", args...) // only a hint
	}
}

// openState opens the state directory.
func (r *runner) openState() (*state.Dir, error) {
	path := r.stateDir
	if path == "" {
		path = r.Getenv("EGRESSCTL_STATE_DIR")
	}
	if path == "" {
		var err error
		if path, err = state.DefaultPath(r.Getenv); err != nil {
			return nil, &failure{code: CodeUsage, err: err}
		}
	}
	dir, err := state.Open(path)
	return dir, local(err)
}
