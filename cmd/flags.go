package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	ctrlzap "sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// options are what the operator is started with.
type options struct {
	config         string
	namespace      string
	namespaces     string
	metricsAddress string
	probeAddress   string
	leaderElect    bool
	checkInterval  time.Duration
	verbosity      int
	logFormat      string
}

// errHelp says that the help, or the version, was asked for and printed.
var errHelp = errors.New("help was printed")

const intro = `The operator of Proxies (group egress.hrajfrisbee.cz): each becomes a forward proxy on a VM of a
configured provider. It talks to the API server of its Pod, or of KUBECONFIG.

Tracing follows the standard variables: set OTEL_EXPORTER_OTLP_ENDPOINT to send spans.

Flags:
`

// parseFlags reads the command line; help and version go to out.
func parseFlags(args []string, out io.Writer) (options, error) {
	var o options
	var showVersion bool
	fs := flag.NewFlagSet("egress-proxies-operator", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&o.config, "config", "/etc/egress-proxies-operator/providers.yaml", "the providers file; docs/kvm2-provider.md describes it")
	fs.StringVar(&o.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "the operator's own namespace, for its identity and its lease; POD_NAMESPACE by default")
	fs.StringVar(&o.namespaces, "watch-namespaces", "", "comma-separated namespaces whose Proxies this installation serves; empty for all")
	fs.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "where Prometheus metrics are served; 0 for nowhere")
	fs.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "where /healthz and /readyz are served; 0 for nowhere")
	fs.BoolVar(&o.leaderElect, "leader-elect", true, "let one replica at a time work")
	fs.DurationVar(&o.checkInterval, "check-interval", time.Minute, "time between two health checks of a provider entry")
	fs.IntVar(&o.verbosity, "v", 0, "log level: 0 what an operator must know, 1 one line for each backend call, 2 its details")
	fs.StringVar(&o.logFormat, "log-format", "json", "json or text")
	fs.StringVar(new(string), "kubeconfig", "", "")
	fs.BoolVar(&showVersion, "version", false, "print the version and end")

	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(out, intro)
		fs.SetOutput(out)
		fs.PrintDefaults()
		return o, errHelp
	case err != nil:
		return o, fmt.Errorf("%w; --help lists the flags", err)
	case showVersion:
		fmt.Fprintln(out, version)
		return o, errHelp
	}
	return o, o.validate(fs.Args())
}

func (o options) validate(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q; --help lists the flags", rest[0])
	case o.namespace == "":
		return errors.New("the operator's own namespace is not known: set --namespace or POD_NAMESPACE")
	case o.verbosity < 0 || o.verbosity > 2:
		return fmt.Errorf("--v must be 0, 1 or 2, is %d", o.verbosity)
	case o.logFormat != "json" && o.logFormat != "text":
		return fmt.Errorf("--log-format must be json or text, is %q", o.logFormat)
	case o.checkInterval < 10*time.Second:
		return fmt.Errorf("--check-interval must be at least 10s, is %s", o.checkInterval)
	}
	return nil
}

// watched gives the namespaces to watch; nil for all.
func (o options) watched() map[string]cache.Config {
	if o.namespaces == "" {
		return nil
	}
	out := map[string]cache.Config{}
	for name := range strings.SplitSeq(o.namespaces, ",") {
		out[strings.TrimSpace(name)] = cache.Config{}
	}
	return out
}

// logger logs to w at the asked level.
func (o options) logger(w io.Writer) logr.Logger {
	level := zap.NewAtomicLevelAt(zapcore.Level(-o.verbosity)) //nolint:gosec // validated: 0 to 2
	encoder := ctrlzap.JSONEncoder()
	if o.logFormat == "text" {
		encoder = ctrlzap.ConsoleEncoder()
	}
	return ctrlzap.New(ctrlzap.WriteTo(w), ctrlzap.Level(level), encoder, ctrlzap.RawZapOpts(zap.AddStacktrace(zapcore.PanicLevel)))
}
