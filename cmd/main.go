// The operator: it takes Proxies to forward proxies on VMs of the configured providers.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	corev1 "k8s.io/api/core/v1"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/controller/proxy"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/identity"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/probe"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/kvm2"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/static"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/providerfile"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/providerhealth"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/tracing"
)

// version is set by the build.
var version = "unknown"

// registry has the types that an entry may have.
var registry = provider.Registry{provider.TypeKVM2: kvm2.New, provider.TypeStatic: static.New}

func main() {
	opts, err := parseFlags(os.Args[1:], os.Stdout)
	switch {
	case err == errHelp: //nolint:errorlint // a sentinel of this package, never wrapped
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	ctrl.SetLogger(opts.logger(os.Stderr))
	if err := run(ctrl.SetupSignalHandler(), opts); err != nil {
		ctrl.Log.Error(err, "the operator ends")
		os.Exit(1)
	}
}

// run builds everything, in the order in which it depends on each other, and works until ctx ends.
func run(ctx context.Context, opts options) (err error) {
	log := ctrl.Log.WithName("operator")
	log.Info("starting", "version", version, "config", opts.config)
	stopTracing, err := tracing.Setup(ctx, "egress-proxies-operator", version, log)
	if err != nil {
		return fmt.Errorf("set up tracing: %w", err)
	}
	defer func() { err = errors.Join(err, stopTracing(context.WithoutCancel(ctx))) }()

	mgr, err := newManager(opts)
	if err != nil {
		return err
	}
	owner, err := identity.Ensure(ctx, mgr.GetAPIReader(), mgr.GetClient(), opts.namespace)
	if err != nil {
		return err
	}
	entries := provider.NewSet(registry, provider.Options{Owner: owner, Log: ctrl.Log.WithName("provider")})
	defer func() { err = errors.Join(err, entries.Close()) }()
	changed := make(chan struct{}, 1)
	file := &providerfile.File{
		Path: opts.config, Set: entries, Every: fileInterval, Log: ctrl.Log.WithName("providerfile"),
		Changed: func([]string) {
			select {
			case changed <- struct{}{}:
			default: // a round is due already
			}
		},
	}
	if err := file.Load(); err != nil {
		return err
	}
	if err := mgr.Add(file); err != nil {
		return fmt.Errorf("set up the reading of the providers file: %w", err)
	}

	reconciler := proxy.New(ctx, proxy.Config{
		Client: mgr.GetClient(), Secrets: mgr.GetAPIReader(),
		Recorder:  mgr.GetEventRecorder("egress-proxies-operator"),
		Providers: entries, Probe: probe.Request, Owner: owner,
	})
	if err := reconciler.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the Proxy controller: %w", err)
	}
	err = mgr.Add(&providerhealth.Checker{
		Client: mgr.GetClient(), Entries: entries,
		Interval: opts.checkInterval, Timeout: checkTimeout,
		Again: changed, FileErr: file.Err,
		Log: ctrl.Log.WithName("providerhealth"),
	})
	if err != nil {
		return fmt.Errorf("set up the health checks: %w", err)
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("manager: %w", err)
	}
	log.Info("stopped")
	return nil
}

// Limits of the process.
const (
	checkTimeout = 30 * time.Second // of one entry's health check
	fileInterval = 5 * time.Second  // between two looks at the providers file
	stopTimeout  = 25 * time.Second // for jobs to end, within a Pod's grace of 30 s
)

func newManager(opts options) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("scheme: %w", err)
		}
	}
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("no way to the API server: %w", err)
	}
	grace := stopTimeout
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme,
		Cache:  cache.Options{DefaultNamespaces: opts.watched()},
		// Secrets are read from the API server each time: the operator keeps none in memory.
		Client:                  client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}},
		Metrics:                 metricsserver.Options{BindAddress: opts.metricsAddress},
		HealthProbeBindAddress:  opts.probeAddress,
		LeaderElection:          opts.leaderElect,
		LeaderElectionID:        "egress-proxies-operator.egress.hrajfrisbee.cz",
		LeaderElectionNamespace: opts.namespace,
		// The process ends when the manager does, and its jobs have ended by then.
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       &grace,
	})
	if err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	for name, add := range map[string]func(string, healthz.Checker) error{"healthz": mgr.AddHealthzCheck, "readyz": mgr.AddReadyzCheck} {
		if err := add(name, healthz.Ping); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return mgr, nil
}
