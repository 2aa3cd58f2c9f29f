package proxy

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
)

type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// deletionChanged passes the update that marks a Proxy as being deleted: it changes no generation that
// every API server bumps.
func deletionChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
	}}
}

// healthChanged passes a ProviderHealth whose condition Ready or whose entry changed: what waited for a
// host, or for another configuration, may go on.
func healthChanged() predicate.Predicate {
	ready := func(o any) bool {
		health, ok := o.(*v1alpha1.ProviderHealth)
		return ok && meta.IsStatusConditionTrue(health.Status.Conditions, v1alpha1.ConditionProviderReady)
	}
	config := func(o any) string {
		health, ok := o.(*v1alpha1.ProviderHealth)
		if !ok {
			return ""
		}
		return health.Status.ConfigHash
	}
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return true }, // the entry is gone
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return ready(e.ObjectOld) != ready(e.ObjectNew) || config(e.ObjectOld) != config(e.ObjectNew)
		},
	}
}
