//go:build integration

package proxy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/static"
)

// existing is the address of the one proxy of a world whose entry is static.
const existing = "198.18.9.1"

// leasing gives the world's entry one proxy that exists already, instead of the fake's machines.
func (w *world) leasing() {
	w.t.Helper()
	leases := w.t.TempDir()
	if err := os.Mkdir(filepath.Join(leases, "endpoints"), 0o700); err != nil {
		w.t.Fatal(err)
	}
	p, err := provider.Registry{provider.TypeStatic: static.New}.New(provider.Entry{
		Name: w.entry, Type: provider.TypeStatic, Static: &provider.StaticConfig{
			LeaseDirectory: leases,
			Endpoints:      []provider.StaticEndpoint{{Name: "rack-1", Zone: "rack", Address: existing, Port: 8080}},
		},
	}, provider.Options{Owner: owner})
	if err != nil {
		w.t.Fatal(err)
	}
	entries.set(w.entry, p)
}

func onRack(p *v1alpha1.Proxy) {
	p.Spec.Placement = v1alpha1.Placement{Zone: "rack", MachineType: provider.StaticPlacement, Image: provider.StaticPlacement}
}

func TestProxy_existingProxyBecomesReady(t *testing.T) {
	w := newWorld(t)
	w.leasing()
	w.apply("berlin-1", onRack)
	p := w.untilCondition("berlin-1", v1alpha1.ConditionReady, metav1.ConditionTrue, "")
	if p.Status.Endpoint != existing+":8080" || p.Status.EgressIP != existing {
		t.Errorf("the endpoint is %q and the egress IP %q, want the existing proxy's with its own port", p.Status.Endpoint, p.Status.EgressIP)
	}
	asked, _ := probes.askedOf(existing)
	if asked.Endpoint != existing+":8080" || asked.User != userName || asked.Password != userPassword || asked.CheckURL != checkURL {
		t.Errorf("the request went to %s as %q, want the proxy's port and the user's own credential", asked.Endpoint, asked.User)
	}
	var secret corev1.Secret
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "berlin-1-proxy"}, &secret); err != nil {
		t.Fatal(err)
	}
	if url := string(secret.Data["https_proxy"]); !strings.HasSuffix(url, "@"+existing+":8080") {
		t.Error("the connection Secret does not lead to the existing proxy's port")
	}
	err := admin.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "berlin-1-proxy-keys"}, &corev1.Secret{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("kept keys were made for a proxy that takes none: %v", err)
	}
	w.delete("berlin-1")
	w.untilGone("berlin-1")
	w.apply("berlin-2", onRack) // the only endpoint is free again
	w.untilCondition("berlin-2", v1alpha1.ConditionReady, metav1.ConditionTrue, "")
	w.delete("berlin-2")
	w.untilGone("berlin-2")
}

func TestProxy_existingProxyRefusesWhatNobodyEnforces(t *testing.T) {
	w := newWorld(t)
	w.leasing()
	w.apply("berlin-1", onRack, func(p *v1alpha1.Proxy) {
		p.Spec.AllowedSources = []string{"192.0.2.0/24"}
		p.Spec.AllowedDestinations = []string{"example.org"}
	})
	p := w.untilCondition("berlin-1", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec)
	for _, c := range p.Status.Conditions {
		if c.Type == v1alpha1.ConditionReady && (!strings.Contains(c.Message, "spec.allowedSources") || !strings.Contains(c.Message, "spec.allowedDestinations")) {
			t.Errorf("the condition does not name the fields to remove: %s", c.Message)
		}
	}
	w.change("berlin-1", func(p *v1alpha1.Proxy) { p.Spec.AllowedSources, p.Spec.AllowedDestinations = nil, nil })
	w.untilCondition("berlin-1", v1alpha1.ConditionReady, metav1.ConditionTrue, "")
}
