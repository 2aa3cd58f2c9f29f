package proxy

import (
	"context"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/probe"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Providers are the configured entries.
type Providers interface {
	// Provider gives the provider of an entry, or an error that says why there is none.
	Provider(name string) (provider.Provider, error)
	// CheckURL is what is fetched through a new proxy, or provider.CheckURLNone.
	CheckURL() string
}

// Prober sends one request through a proxy.
type Prober func(ctx context.Context, opts probe.Options) (probe.Result, error)

// Config is what a Reconciler works with.
type Config struct {
	// Client reads Proxies from the cache and writes.
	Client client.Client
	// Secrets reads past the cache: no Secret is kept in memory for longer than a pass.
	Secrets   client.Reader
	Recorder  events.EventRecorder
	Providers Providers
	Probe     Prober
	// Owner is this installation's identity.
	Owner string
	// Steady is the time between two looks at a proxy that works; zero means a minute.
	Steady time.Duration
	// Mend is the time between two looks at what the user has to mend and no watch tells of: Secrets
	// are not watched, since that would keep every Secret of the cluster in memory. Zero means 15 s.
	Mend time.Duration
}

// Reconciler takes Proxies to instances. Make it with New.
type Reconciler struct {
	Config
	jobs     *jobs
	outcomes *outcomes
	turns    turns
	woken    chan event.TypedGenericEvent[types.NamespacedName]
	now      func() time.Time
}

// New makes a Reconciler. Its jobs end with ctx.
func New(ctx context.Context, config Config) *Reconciler {
	r := &Reconciler{
		Config: config,
		woken:  make(chan event.TypedGenericEvent[types.NamespacedName]),
		now:    time.Now,
	}
	if r.Steady == 0 {
		r.Steady = time.Minute
	}
	if r.Mend == 0 {
		r.Mend = 15 * time.Second
	}
	r.outcomes = &outcomes{
		steady: r.Steady,
		last:   map[types.NamespacedName]lastOf{},
		now:    r.now,
		jitter: func() float64 { return 0.85 + 0.3*rand.Float64() }, //nolint:gosec // spreads retries, guards nothing
	}
	r.jobs = newJobs(ctx, func(ctx context.Context, key types.NamespacedName) {
		select {
		case r.woken <- event.TypedGenericEvent[types.NamespacedName]{Object: key}:
		case <-ctx.Done():
		}
	})
	return r
}

// workers is the number of Proxies that are looked at at once. No worker waits for a backend.
const workers = 8

// SetupWithManager registers the controller, and the end of its jobs with the manager's.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	drain := manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		r.jobs.close()
		return nil
	})
	if err := mgr.Add(drain); err != nil {
		return err
	}
	enqueue := handler.TypedFuncs[types.NamespacedName, ctrl.Request]{
		GenericFunc: func(_ context.Context, e event.TypedGenericEvent[types.NamespacedName], q queue) {
			q.Add(ctrl.Request{NamespacedName: e.Object})
		},
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("proxy").
		For(&v1alpha1.Proxy{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, deletionChanged()))).
		WatchesRawSource(source.Channel(r.woken, enqueue)).
		Watches(&v1alpha1.ProviderHealth{}, handler.EnqueueRequestsFromMapFunc(r.proxiesOf), builder.WithPredicates(healthChanged())).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// proxiesOf names the Proxies of an entry whose health changed.
func (r *Reconciler) proxiesOf(ctx context.Context, health client.Object) []ctrl.Request {
	var all v1alpha1.ProxyList
	if err := r.Client.List(ctx, &all); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list the Proxies of an entry whose health changed")
		return nil
	}
	var out []ctrl.Request
	for i := range all.Items {
		p := &all.Items[i]
		if p.Spec.Provider != health.GetName() {
			continue
		}
		r.outcomes.hurry(subjectOf(p))
		out = append(out, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(p)})
	}
	return out
}
