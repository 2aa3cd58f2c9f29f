package proxy

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// finalize takes a Proxy that is being deleted to the proof that its instance is gone, and lets it go
// only then. A running create is cancelled and waited for first, so that it cannot make anew what is
// being removed.
func (r *Reconciler) finalize(ctx context.Context, s *pass) (reconcile.Result, error) {
	p := s.proxy
	if !deleting(p) {
		return reconcile.Result{}, nil
	}
	if !controllerutil.ContainsFinalizer(p, v1alpha1.Finalizer) {
		r.outcomes.forget(client.ObjectKeyFromObject(p))
		return reconcile.Result{}, errStop
	}
	if running := r.jobs.kindOf(p.UID); running != "" {
		if running != jobDelete {
			r.jobs.stop(p.UID)
		}
		blocked(p, v1alpha1.ReasonDeleting, "the VM is being removed")
		return reconcile.Result{}, errStop
	}
	abandoned := p.Status.ProviderID != "" && p.Annotations[v1alpha1.AnnotationAbandon] == p.Status.ProviderID
	switch {
	case p.Status.ProviderID == "":
		// Nothing was ever created: the ID is written before the first create.
		return reconcile.Result{}, r.release(ctx, p, nil)
	case abandoned:
		return reconcile.Result{}, r.release(ctx, p, &transition{corev1.EventTypeWarning, "Abandoned", "Delete",
			p.Status.ProviderID + " was given up by annotation: it may still exist"})
	case s.provider == nil:
		_, err := r.Providers.Provider(p.Spec.Provider)
		blocked(p, v1alpha1.ReasonProviderNotConfigured, fmt.Sprintf("%v; the VM %s may still exist: bring the entry back, or set the annotation %s to that ID to give the VM up",
			err, p.Status.ProviderID, v1alpha1.AnnotationAbandon))
		return reconcile.Result{RequeueAfter: r.Mend}, errStop
	}
	return r.remove(ctx, s)
}

// remove starts the next delete job, or lets the Proxy go when its instance is proved gone.
func (r *Reconciler) remove(ctx context.Context, s *pass) (reconcile.Result, error) {
	p := s.proxy
	kind := nextDelete(s.last)
	if kind == "" {
		return reconcile.Result{}, r.release(ctx, p, &transition{corev1.EventTypeNormal, "Deleted", "Delete", p.Status.ProviderID + " is gone"})
	}
	if s.last != nil && s.last.kind == jobDelete {
		blocked(p, provider.ReasonOf(s.last.err), retryMessage(s.last))
		if wait := s.last.next.Sub(r.now()); wait > 0 {
			return reconcile.Result{RequeueAfter: wait}, errStop
		}
	} else {
		blocked(p, v1alpha1.ReasonDeleting, "the VM is being removed")
	}
	r.startDelete(ctx, s)
	return reconcile.Result{}, errStop
}

// release takes the finalizer off, says so, and forgets the Proxy.
func (r *Reconciler) release(ctx context.Context, p *v1alpha1.Proxy, say *transition) error {
	base := p.DeepCopy()
	controllerutil.RemoveFinalizer(p, v1alpha1.Finalizer)
	if err := r.Client.Patch(ctx, p, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the finalizer: %w", err)
	}
	if say != nil {
		r.record(p, *say)
	}
	r.outcomes.forget(client.ObjectKeyFromObject(p))
	return errStop
}

// deleteInstance removes an instance and asks for the proof: a Delete without an error may only mean
// that the entry no longer has the host.
func deleteInstance(ctx context.Context, prov provider.Provider, id string) error {
	if err := prov.Delete(ctx, id); err != nil && !errors.Is(err, provider.ErrNotFound) {
		return err
	}
	_, err := prov.Get(ctx, id)
	if err == nil {
		return provider.Errorf(provider.ErrTransient, provider.ReasonBackendError, "%s was deleted and is still there", id)
	}
	return err
}
