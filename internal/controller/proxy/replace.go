package proxy

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
)

// replaceAsked says whether a Proxy whose inputs changed may be replaced now: by its mode, or by the
// annotation that Manual waits for.
func replaceAsked(p *v1alpha1.Proxy) bool {
	if p.Status.ProvisionedAt == nil || p.Spec.Replacement == v1alpha1.ReplacementAutomatic {
		return true // what never ran is not worth keeping
	}
	asked := p.Annotations[v1alpha1.AnnotationReplace]
	return asked == "now" || asked == strconv.FormatInt(p.Generation, 10)
}

// replacementDue says whether the instance must make way for one from the present inputs, or how long
// to wait for another Proxy of the entry that is being replaced: Automatic goes one at a time.
func (r *Reconciler) replacementDue(s *pass) (now bool, wait time.Duration) {
	p := s.proxy
	if p.Status.InputsHash == s.inputs.hash || !replaceAsked(p) {
		return false, 0
	}
	if p.Spec.Replacement != v1alpha1.ReplacementAutomatic || p.Status.ProvisionedAt == nil {
		return true, 0
	}
	if !r.turns.take(p.Spec.Provider, p.UID) {
		return false, r.Mend
	}
	return true, 0
}

// replace removes the present instance, and, once it is proved gone, writes down the ID of its
// successor; the steps then make it like a first one.
func (r *Reconciler) replace(ctx context.Context, s *pass) error {
	p := s.proxy
	if nextDelete(s.last) != "" {
		if s.last != nil && s.last.kind == jobDelete && s.last.next.After(r.now()) {
			return nil
		}
		r.startDelete(ctx, s)
		return nil
	}
	base := p.DeepCopy()
	p.Status.Replacements++
	p.Status.InputsHash, p.Status.ProviderID, p.Status.MACAddress, p.Status.ProvisionedAt = "", "", "", nil
	p.Status.Address, p.Status.Endpoint, p.Status.EgressIP = "", "", ""
	if err := r.Client.Status().Patch(ctx, p, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write down the replacement: %w", err)
	}
	r.outcomes.forget(client.ObjectKeyFromObject(p))
	return nil
}
