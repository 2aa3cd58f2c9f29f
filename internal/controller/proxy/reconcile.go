package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// pass is what the steps of one reconcile share.
type pass struct {
	proxy    *v1alpha1.Proxy
	provider provider.Provider
	inputs   *inputs
	// last is how the last job ended; nil when nothing is known yet.
	last *outcome
}

// basis is what a job works from. Another one makes the next job due at once.
func (s *pass) basis() string { return fmt.Sprintf("%s@%d", s.inputs.hash, s.proxy.Generation) }

// errStop ends the pass after a step that leaves nothing for the later ones to do now.
var errStop = errors.New("stop")

// step looks at one concern. A result that asks for a later look is kept, the soonest wins.
type step func(ctx context.Context, s *pass) (reconcile.Result, error)

// conflictPause is how long the cache gets to catch up with what was written.
const conflictPause = 200 * time.Millisecond

// Reconcile takes one Proxy a step further. It waits for no backend.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var p v1alpha1.Proxy
	if err := r.Client.Get(ctx, req.NamespacedName, &p); err != nil {
		if apierrors.IsNotFound(err) {
			r.outcomes.forget(req.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, err
	}
	before := p.DeepCopy()
	s := &pass{proxy: &p, last: r.outcomes.get(subjectOf(&p))}
	result, err := r.run(ctx, s)
	if patchErr := r.patchStatus(ctx, before, &p); patchErr != nil && err == nil {
		err = patchErr
	}
	if apierrors.IsConflict(err) {
		// The cache was behind our own last write.
		return ctrl.Result{RequeueAfter: conflictPause}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if p.Status.InputsHash != "" && s.inputs != nil && p.Status.InputsHash == s.inputs.hash && meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady) {
		r.turns.give(p.Spec.Provider, p.UID)
	}
	r.announce(before, &p)
	return result, nil
}

// run goes through the steps. A specError is the user's to mend: it is a condition, not an error.
func (r *Reconciler) run(ctx context.Context, s *pass) (reconcile.Result, error) {
	steps := []step{r.paused, r.find, r.finalize, r.prepare, r.register, r.observe, r.connect, r.advance}
	var result reconcile.Result
	for _, step := range steps {
		got, err := step(ctx, s)
		if got.RequeueAfter > 0 && (result.RequeueAfter == 0 || got.RequeueAfter < result.RequeueAfter) {
			result.RequeueAfter = got.RequeueAfter
		}
		var spec *specError
		switch {
		case errors.Is(err, errStop):
			return result, nil
		case errors.As(err, &spec):
			blocked(s.proxy, spec.reason, spec.Error())
			return reconcile.Result{RequeueAfter: r.Mend}, nil
		case err != nil:
			return reconcile.Result{}, err
		}
	}
	return result, nil
}

// patchStatus writes the status once, and only when it changed. A pass that began from an object which
// is no longer the latest writes nothing: its transitions were announced by the pass before.
func (r *Reconciler) patchStatus(ctx context.Context, before, after *v1alpha1.Proxy) error {
	after.Status.ObservedGeneration = after.Generation
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}
	base := before.DeepCopy()
	base.ResourceVersion = after.ResourceVersion
	if err := r.Client.Status().Patch(ctx, after, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	return nil
}

// paused leaves a Proxy with the annotation alone, its VM too.
func (r *Reconciler) paused(_ context.Context, s *pass) (reconcile.Result, error) {
	if _, paused := s.proxy.Annotations[v1alpha1.AnnotationPaused]; !paused {
		return reconcile.Result{}, nil
	}
	r.jobs.stop(s.proxy.UID)
	set(s.proxy, v1alpha1.ConditionReady, unknown(v1alpha1.ReasonPaused,
		"the annotation "+v1alpha1.AnnotationPaused+" holds everything still: remove it to go on"))
	return reconcile.Result{}, errStop
}

// find looks the provider up. A Proxy whose entry is missing waits with its finalizer: its VM may
// still be there.
func (r *Reconciler) find(_ context.Context, s *pass) (reconcile.Result, error) {
	prov, err := r.Providers.Provider(s.proxy.Spec.Provider)
	switch {
	case err == nil:
		s.provider = prov
		return reconcile.Result{}, nil
	case deleting(s.proxy):
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, &specError{v1alpha1.ReasonProviderNotConfigured, err}
}

func deleting(p *v1alpha1.Proxy) bool { return !p.DeletionTimestamp.IsZero() }
