package proxy

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// register puts the finalizer on and writes the ID down, both before the first outside effect: an
// instance that was made without them would be lost when the operator dies in between.
func (r *Reconciler) register(ctx context.Context, s *pass) (reconcile.Result, error) {
	p := s.proxy
	if !controllerutil.ContainsFinalizer(p, v1alpha1.Finalizer) {
		base := p.DeepCopy()
		controllerutil.AddFinalizer(p, v1alpha1.Finalizer)
		if err := r.Client.Patch(ctx, p, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); err != nil {
			return reconcile.Result{}, fmt.Errorf("add the finalizer: %w", err)
		}
	}
	if p.Status.ProviderID != "" {
		return reconcile.Result{}, nil
	}
	base := p.DeepCopy()
	identifier, ok := provider.As[provider.Identifier](s.provider)
	if !ok {
		// Without it the ID is known, and written, only after the create; the mark's ref and UID find
		// an instance whose ID was lost in between.
		return reconcile.Result{}, nil
	}
	id, err := identifier.IDFor(s.inputs.request)
	if err != nil {
		return reconcile.Result{}, &specError{provider.ReasonOf(err), err}
	}
	p.Status.ProviderID, p.Status.InputsHash = id, s.inputs.hash
	if addresser, ok := provider.As[provider.MACAddresser](s.provider); ok {
		p.Status.MACAddress = addresser.MACFor(s.inputs.request)
	}
	if err := r.Client.Status().Patch(ctx, p, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); err != nil {
		return reconcile.Result{}, fmt.Errorf("write the provider's ID: %w", err)
	}
	return reconcile.Result{}, nil
}

// prepare reads the Secrets and renders what the instance is made from.
func (r *Reconciler) prepare(ctx context.Context, s *pass) (reconcile.Result, error) {
	in, err := r.gather(ctx, s.proxy, s.provider)
	s.inputs = in
	return reconcile.Result{}, err
}
