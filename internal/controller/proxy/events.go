package proxy

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/probe"
)

// announce records one event for each transition between two statuses.
func (r *Reconciler) announce(before, after *v1alpha1.Proxy) {
	for _, e := range transitions(before.Status.Conditions, after.Status.Conditions) {
		r.record(after, e)
	}
}

func (r *Reconciler) record(p *v1alpha1.Proxy, e transition) {
	r.Recorder.Eventf(p, nil, e.kind, e.reason, e.action, "%s", e.message)
}

// transition is one event to record.
type transition struct{ kind, reason, action, message string }

// transitions compares conditions: Ready and Provisioned that became true, and each new reason why Ready
// is not. A message that only counts attempts up is no transition.
func transitions(before, after []metav1.Condition) []transition {
	var out []transition
	for _, kind := range []string{v1alpha1.ConditionProvisioned, v1alpha1.ConditionReady} {
		was, is := meta.FindStatusCondition(before, kind), meta.FindStatusCondition(after, kind)
		if is == nil || (was != nil && was.Status == is.Status && was.Reason == is.Reason) {
			continue
		}
		wasTrue := was != nil && was.Status == metav1.ConditionTrue
		switch {
		case is.Status == metav1.ConditionTrue && !wasTrue:
			out = append(out, transition{corev1.EventTypeNormal, kind, "Provision", is.Message})
		case kind == v1alpha1.ConditionReady && is.Status != metav1.ConditionTrue:
			out = append(out, transition{eventType(is.Reason, wasTrue), is.Reason, "Provision", is.Message})
		}
	}
	return out
}

// eventType is Normal for what belongs to every start and every end, Warning for the rest.
func eventType(reason string, wasReady bool) string {
	switch reason {
	case v1alpha1.ReasonDeleting, v1alpha1.ReasonPaused:
		return corev1.EventTypeNormal
	case v1alpha1.ReasonCreating, v1alpha1.ReasonBooting, v1alpha1.ReasonWaitingForVM, string(probe.ReasonProxyUnreachable):
		if !wasReady {
			return corev1.EventTypeNormal
		}
	}
	return corev1.EventTypeWarning
}
