//go:build integration

package providerhealth_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/identity"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/fake"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/providerhealth"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/test/controlplane"
)

// entries has one entry that works and one that cannot be used.
type entries struct{ good provider.Provider }

func (e entries) Names() []string               { return []string{"good", "broken"} }
func (e entries) Type(string) string            { return provider.TypeKVM2 }
func (e entries) ConfigHash(name string) string { return "hash of " + name }
func (e entries) Provider(name string) (provider.Provider, error) {
	if name == "good" {
		return e.good, nil
	}
	return nil, provider.Errorf(provider.ErrPermanent, provider.ReasonInvalidConfig, "providers[1].kvm2.hosts: is required")
}

func newAPI(t *testing.T) client.Client {
	t.Helper()
	plane, err := controlplane.Start(t.Context(), controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	api, err := client.New(plane.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func TestChecker_anObjectForEachEntryAndForNoOther(t *testing.T) {
	api := newAPI(t)
	old := &v1alpha1.ProviderHealth{ObjectMeta: metav1.ObjectMeta{Name: "no-longer-configured"}}
	if err := api.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	checker := &providerhealth.Checker{
		Client: api, Entries: entries{fake.New("good")}, Interval: 50 * time.Millisecond, Timeout: 10 * time.Second, Log: logr.Discard(),
		FileErr: func() error { return nil },
	}
	ended := make(chan error, 1)
	go func() { ended <- checker.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	reasons := func(ctx context.Context) map[string]string {
		var all v1alpha1.ProviderHealthList
		if err := api.List(ctx, &all); err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for i := range all.Items {
			out[all.Items[i].Name] = "not written"
			if c := meta.FindStatusCondition(all.Items[i].Status.Conditions, v1alpha1.ConditionProviderReady); c != nil {
				out[all.Items[i].Name] = c.Reason
			}
		}
		return out
	}
	deadline, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		got := reasons(t.Context())
		if len(got) == 2 && got["good"] == v1alpha1.ReasonHealthy && got["broken"] == v1alpha1.ReasonConfigInvalid {
			break
		}
		select {
		case <-deadline.Done():
			t.Fatalf("want good Healthy, broken ConfigInvalid and nothing else, got %v", got)
		case <-ticker.C:
		}
	}

	var before, after v1alpha1.ProviderHealth
	key := client.ObjectKey{Name: "good"}
	if err := api.Get(t.Context(), key, &before); err != nil {
		t.Fatal(err)
	}
	for range 10 { // as many rounds
		<-ticker.C
	}
	if err := api.Get(t.Context(), key, &after); err != nil {
		t.Fatal(err)
	}
	if before.ResourceVersion != after.ResourceVersion {
		t.Errorf("nothing changed, and the object was written again: %s to %s", before.ResourceVersion, after.ResourceVersion)
	}
}

func TestIdentity_isMadeOnceAndKept(t *testing.T) {
	api := newAPI(t)
	if err := api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "egress-system"}}); err != nil {
		t.Fatal(err)
	}
	const replicas = 8
	owners := make(chan string, replicas)
	for range replicas {
		go func() {
			owner, err := identity.Ensure(t.Context(), api, api, "egress-system")
			if err != nil {
				owner = err.Error()
			}
			owners <- owner
		}()
	}
	first := <-owners
	for range replicas - 1 {
		if next := <-owners; next != first {
			t.Errorf("replicas that start at once must get one identity: %q and %q", first, next)
		}
	}
	emptied := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "egress-system", Name: identity.ConfigMapName}}
	if err := api.Delete(t.Context(), emptied); err != nil {
		t.Fatal(err)
	}
	if err := api.Create(t.Context(), emptied.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	if _, err := identity.Ensure(t.Context(), api, api, "egress-system"); err == nil || !strings.Contains(err.Error(), "backup") {
		t.Errorf("an identity that was lost is no reason to make another one: %v", err)
	}
}
