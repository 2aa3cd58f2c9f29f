//go:build integration

package proxy_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/probe"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/fake"
)

func TestProxy_becomesReady(t *testing.T) {
	w := newWorld(t)
	p := w.ready("berlin-1")

	instances := w.backend.Instances()
	if len(instances) != 1 || w.backend.Made(p.Status.ProviderID) != 1 {
		t.Fatalf("one Proxy is one instance, made once: %+v", instances)
	}
	seen := instances[0]
	if seen.ID != p.Status.ProviderID || seen.Owner != owner || seen.UID != string(p.UID) || seen.Ref != w.namespace+"/berlin-1" {
		t.Errorf("the mark must tell whose the instance is: %+v", seen)
	}
	if strings.Contains(string(seen.CloudInit), userPassword) {
		t.Error("the user-data holds the password itself, not its hash")
	}
	address := seen.Addresses[0]
	want := v1alpha1.ProxyStatus{Address: address, Endpoint: address + ":3128", EgressIP: address, ProviderID: seen.ID}
	got := v1alpha1.ProxyStatus{Address: p.Status.Address, Endpoint: p.Status.Endpoint, EgressIP: p.Status.EgressIP, ProviderID: p.Status.ProviderID}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status: -want, +got:\n%s", diff)
	}
	if p.Status.ProvisionedAt == nil || p.Status.ObservedGeneration != p.Generation {
		t.Errorf("provisionedAt %v, observedGeneration %d of %d", p.Status.ProvisionedAt, p.Status.ObservedGeneration, p.Generation)
	}
	for _, kind := range []string{v1alpha1.ConditionProvisioned, v1alpha1.ConditionAddressAssigned, v1alpha1.ConditionServing} {
		if !meta.IsStatusConditionTrue(p.Status.Conditions, kind) {
			t.Errorf("Ready is true and %s is not: %+v", kind, p.Status.Conditions)
		}
	}
	asked, _ := probes.askedOf(address)
	if asked.CheckURL != checkURL || asked.User == userName || asked.Password == "" {
		t.Errorf("the request must go to the check URL with the generated credential, not the user's: %s as %q", asked, asked.User)
	}
}

func TestProxy_connectionSecret(t *testing.T) {
	w := newWorld(t)
	p := w.ready("berlin-1")
	var secret corev1.Secret
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "berlin-1-proxy"}, &secret); err != nil {
		t.Fatal(err)
	}
	if !metav1.IsControlledBy(&secret, p) {
		t.Error("the Secret must go with its Proxy: it has no owner reference to it")
	}
	for _, key := range []string{"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"} {
		u, err := url.Parse(string(secret.Data[key]))
		if err != nil {
			t.Fatalf("%s is no URL: %v", key, err)
		}
		password, _ := u.User.Password()
		if u.Host != p.Status.Endpoint || u.User.Username() != userName || password != userPassword {
			t.Errorf("%s: host %s, user %s; the password survived percent-encoding: %v", key, u.Host, u.User.Username(), password == userPassword)
		}
	}
	for _, entry := range []string{"localhost", ".svc", ".cluster.local", "10.0.0.0/8"} {
		if !strings.Contains(string(secret.Data["no_proxy"]), entry) {
			t.Errorf("no_proxy must keep traffic inside the cluster: %s lacks %s", secret.Data["no_proxy"], entry)
		}
	}
}

func TestProxy_connectionSecretOfSomebodyElseStays(t *testing.T) {
	w := newWorld(t)
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "berlin-1-proxy"}, Data: map[string][]byte{"mine": []byte("x")}})
	w.apply("berlin-1")
	p := w.until("berlin-1", "has an instance", func(p *v1alpha1.Proxy) bool {
		_, found := w.backend.Look(p.Status.ProviderID)
		return found
	})
	w.address(p)
	w.untilCondition("berlin-1", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSecretConflict)
	var secret corev1.Secret
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "berlin-1-proxy"}, &secret); err != nil || len(secret.Data) != 1 {
		t.Errorf("somebody else's Secret was changed: %v, %v", secret.Data, err)
	}
}

func TestProxy_finalizerAndIDBeforeTheFirstCreate(t *testing.T) {
	w := newWorld(t)
	gate := w.backend.Block(fake.Create)
	defer gate.Open()
	w.apply("berlin-1")
	<-gate.Arrived()
	p, err := w.get(t.Context(), "berlin-1")
	if err != nil {
		t.Fatal(err)
	}
	if !controllerutil.ContainsFinalizer(p, v1alpha1.Finalizer) || p.Status.ProviderID == "" {
		t.Errorf("a create began before the finalizer (%v) and the ID (%q) were written", p.Finalizers, p.Status.ProviderID)
	}
}

func TestProxy_deleteDuringCreateLeavesNothing(t *testing.T) {
	w := newWorld(t)
	gate := w.backend.Block(fake.Start)
	defer gate.Open()
	w.apply("berlin-1")
	<-gate.Arrived()
	w.delete("berlin-1")
	w.untilGone("berlin-1")
	w.nothingLeft()
}

func TestProxy_deleteRemovesEverything(t *testing.T) {
	w := newWorld(t)
	w.ready("berlin-1")
	w.delete("berlin-1")
	w.untilGone("berlin-1")
	w.nothingLeft()
	w.untilEvents("berlin-1", "Deleted")
}

func TestProxy_finalizerStaysUntilTheInstanceIsProvedGone(t *testing.T) {
	w := newWorld(t)
	w.ready("berlin-1")
	w.backend.Fail(fake.Delete, 2, errTransient)
	w.delete("berlin-1")
	p := w.until("berlin-1", "says why it is still there", func(p *v1alpha1.Proxy) bool {
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
		return c != nil && c.Reason == errTransient.Reason
	})
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady); !strings.Contains(c.Message, "transient") || !strings.Contains(c.Message, "next at") {
		t.Errorf("a retry must tell its class and when it is due: %q", c.Message)
	}
	w.untilGone("berlin-1")
	w.nothingLeft()
}

func TestProxy_entryThatDisappearedKeepsTheFinalizer(t *testing.T) {
	w := newWorld(t)
	p := w.ready("berlin-1")
	entries.set(w.entry, nil)
	w.delete("berlin-1")
	w.untilCondition("berlin-1", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProviderNotConfigured)
	if _, found := w.backend.Look(p.Status.ProviderID); !found {
		t.Fatal("the instance is gone although its entry cannot be reached")
	}
	w.configure()
	w.untilGone("berlin-1")
	w.nothingLeft()
}

func TestProxy_abandonLetsGoOfAnInstanceThatCannotBeReached(t *testing.T) {
	w := newWorld(t)
	p := w.ready("berlin-1")
	entries.set(w.entry, nil)
	w.change("berlin-1", func(p *v1alpha1.Proxy) {
		p.Annotations = map[string]string{v1alpha1.AnnotationAbandon: p.Status.ProviderID}
	})
	w.delete("berlin-1")
	w.untilGone("berlin-1")
	if _, found := w.backend.Look(p.Status.ProviderID); !found {
		t.Error("giving an instance up must not touch it")
	}
}

func TestProxy_unknownEntryGoesWithoutAWord(t *testing.T) {
	w := newWorld(t)
	w.apply("berlin-1", func(p *v1alpha1.Proxy) { p.Spec.Provider = "nobody" })
	w.untilCondition("berlin-1", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProviderNotConfigured)
	w.delete("berlin-1")
	w.untilGone("berlin-1")
}

func TestProxy_vanishedInstanceIsMadeAnew(t *testing.T) {
	w := newWorld(t)
	p := w.ready("berlin-1")
	w.backend.Remove(p.Status.ProviderID)
	w.until("berlin-1", "has an instance again", func(*v1alpha1.Proxy) bool { return w.backend.Made(p.Status.ProviderID) == 2 })
	w.address(p)
	w.untilCondition("berlin-1", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRequestPassed)
	w.untilEvents("berlin-1", v1alpha1.ReasonVanished)
}

func TestProxy_stoppedInstanceIsStartedAgain(t *testing.T) {
	w := newWorld(t)
	p := w.ready("berlin-1")
	w.backend.Stop(p.Status.ProviderID)
	w.until("berlin-1", "runs again", func(*v1alpha1.Proxy) bool {
		seen, _ := w.backend.Look(p.Status.ProviderID)
		return seen.Running
	})
	if made := w.backend.Made(p.Status.ProviderID); made != 1 {
		t.Errorf("a stopped instance is started, not made again: made %d times", made)
	}
}

func TestProxy_thatStopsAnsweringIsReportedNotReplaced(t *testing.T) {
	w := newWorld(t)
	p := w.ready("berlin-1")
	probes.answer(p.Status.Address, &probeAnswer{err: &probe.Error{Reason: probe.ReasonProxyUnreachable, Message: "no connection to the proxy"}})
	w.untilCondition("berlin-1", v1alpha1.ConditionReady, metav1.ConditionFalse, string(probe.ReasonProxyUnreachable))
	w.untilCondition("berlin-1", v1alpha1.ConditionServing, metav1.ConditionFalse, string(probe.ReasonProxyUnreachable))
	if made := w.backend.Made(p.Status.ProviderID); made != 1 {
		t.Errorf("a proxy that does not answer was made %d times", made)
	}
	probes.answer(p.Status.Address, nil)
	w.untilCondition("berlin-1", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRequestPassed)
}

func TestProxy_hostThatCannotBeAskedLeavesAWorkingProxyReady(t *testing.T) {
	w := newWorld(t)
	w.ready("berlin-1")
	w.backend.FailHost(fake.DefaultZone, errTransient)
	p := w.untilCondition("berlin-1", v1alpha1.ConditionProvisioned, metav1.ConditionUnknown, errTransient.Reason)
	if !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("requests pass, so the Proxy is Ready: %+v", p.Status.Conditions)
	}
}

func TestProxy_expectedEgressIP(t *testing.T) {
	w := newWorld(t)
	w.ready("berlin-1")
	w.change("berlin-1", func(p *v1alpha1.Proxy) { p.Spec.ExpectedEgressIP = "203.0.113.7" })
	p := w.untilCondition("berlin-1", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonUnexpectedEgressIP)
	if !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionServing) {
		t.Errorf("the proxy serves, from another address: %+v", p.Status.Conditions)
	}
	w.change("berlin-1", func(p *v1alpha1.Proxy) { p.Spec.ExpectedEgressIP = p.Status.Address })
	w.untilCondition("berlin-1", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRequestPassed)
}

func TestProxy_missingSecretIsNamedAndWaitedFor(t *testing.T) {
	w := newWorld(t)
	w.apply("berlin-1", func(p *v1alpha1.Proxy) { p.Spec.Auth.SecretRef.Name = "later" })
	p := w.untilCondition("berlin-1", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSecretNotFound)
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady); !strings.Contains(c.Message, `"later"`) {
		t.Errorf("the message must name the Secret: %q", c.Message)
	}
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "later"},
		Data: map[string][]byte{"username": []byte("u"), "password": []byte("p")}})
	w.until("berlin-1", "has an instance", func(*v1alpha1.Proxy) bool { return len(w.backend.Instances()) == 1 })
}

func TestProxy_permanentErrorIsTriedAtOnceWhenItsCauseChanged(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*v1alpha1.ProviderHealthStatus)
	}{
		"Host": {"the host was mended", func(s *v1alpha1.ProviderHealthStatus) {
			meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: v1alpha1.ConditionProviderReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHealthy})
		}},
		"Config": {"the entry was changed", func(s *v1alpha1.ProviderHealthStatus) { s.ConfigHash = "another" }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { triedAtOnce(t, tc.reason, tc.change) })
	}
}

func triedAtOnce(t *testing.T, reason string, change func(*v1alpha1.ProviderHealthStatus)) {
	t.Helper()
	w := newWorld(t)
	health := &v1alpha1.ProviderHealth{ObjectMeta: metav1.ObjectMeta{Name: w.entry}}
	w.create(health)
	w.backend.Fail(fake.Create, 1, errPermanent)
	w.apply("berlin-1")
	w.untilCondition("berlin-1", v1alpha1.ConditionReady, metav1.ConditionFalse, errPermanent.Reason)
	change(&health.Status)
	if err := admin.Status().Update(t.Context(), health); err != nil {
		t.Fatal(err)
	}
	w.until("berlin-1", "has an instance long before five minutes, since "+reason, func(*v1alpha1.Proxy) bool { return len(w.backend.Instances()) == 1 })
}

func TestProxy_aVMKeepsTheCheckURLThatItWasMadeWith(t *testing.T) {
	w := newWorld(t)
	p := w.ready("berlin-1")
	const another = "https://another.example.net/"
	entries.setCheckURL(another)
	t.Cleanup(func() { entries.setCheckURL(checkURL) })
	before := probes.count(p.Status.Address)
	w.until("berlin-1", "was tried again", func(*v1alpha1.Proxy) bool { return probes.count(p.Status.Address) > before+1 })
	if asked, _ := probes.askedOf(p.Status.Address); asked.CheckURL != checkURL {
		t.Errorf("the VM's probe credential is good for %s only, and it was tried with %s", checkURL, asked.CheckURL)
	}
	later := w.ready("berlin-2")
	if asked, _ := probes.askedOf(later.Status.Address); asked.CheckURL != another {
		t.Errorf("a VM that is made now uses the present check URL, got %s", asked.CheckURL)
	}
}

func TestProxy_pausedIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	p := w.ready("berlin-1")
	w.change("berlin-1", func(p *v1alpha1.Proxy) { p.Annotations = map[string]string{v1alpha1.AnnotationPaused: ""} })
	w.untilCondition("berlin-1", v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonPaused)
	w.backend.Stop(p.Status.ProviderID)
	w.change("berlin-1", func(p *v1alpha1.Proxy) { p.Spec.AllowedDestinations = []string{"example.org"} })
	w.until("berlin-1", "was looked at in its pause", func(p *v1alpha1.Proxy) bool { return p.Status.ObservedGeneration == p.Generation })
	if seen, _ := w.backend.Look(p.Status.ProviderID); seen.Running {
		t.Error("the VM of a paused Proxy was started")
	}
	w.change("berlin-1", func(p *v1alpha1.Proxy) { delete(p.Annotations, v1alpha1.AnnotationPaused) })
	w.until("berlin-1", "runs again after the pause", func(*v1alpha1.Proxy) bool {
		seen, _ := w.backend.Look(p.Status.ProviderID)
		return seen.Running
	})
	w.address(p)
	w.untilCondition("berlin-1", v1alpha1.ConditionReady, metav1.ConditionTrue, "")
}

func TestProxy_manualReplacementWaitsForItsAnnotation(t *testing.T) {
	w := newWorld(t)
	before := w.ready("berlin-1")
	w.change("berlin-1", func(p *v1alpha1.Proxy) { p.Spec.AllowedDestinations = []string{"example.org"} })
	w.untilCondition("berlin-1", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReplacementNeeded)
	if got := w.backend.Instances(); len(got) != 1 || got[0].ID != before.Status.ProviderID {
		t.Fatalf("Manual waits: %+v", got)
	}
	w.change("berlin-1", func(p *v1alpha1.Proxy) { p.Annotations = map[string]string{v1alpha1.AnnotationReplace: "now"} })
	after := w.until("berlin-1", "has another instance", func(p *v1alpha1.Proxy) bool {
		_, found := w.backend.Look(p.Status.ProviderID)
		return found && p.Status.ProviderID != before.Status.ProviderID
	})
	w.address(after)
	w.untilCondition("berlin-1", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRequestPassed)
	if got := w.backend.Instances(); len(got) != 1 || len(w.backend.ReusedNames()) > 0 {
		t.Errorf("one instance, under a name of its own: %+v, reused %v", got, w.backend.ReusedNames())
	}
}

func TestProxy_changedPasswordReplacesAutomatically(t *testing.T) {
	w := newWorld(t)
	before := w.ready("berlin-1", func(p *v1alpha1.Proxy) { p.Spec.Replacement = v1alpha1.ReplacementAutomatic })
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "auth"},
		Data: map[string][]byte{"username": []byte(userName), "password": []byte("another one")}}
	if err := admin.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	w.until("berlin-1", "has another instance", func(p *v1alpha1.Proxy) bool {
		_, found := w.backend.Look(p.Status.ProviderID)
		return found && p.Status.ProviderID != before.Status.ProviderID
	})
}

func TestProxy_passwordAppearsNowhereButInSecrets(t *testing.T) {
	w := newWorld(t)
	w.ready("berlin-1")
	p, err := w.get(t.Context(), "berlin-1")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{userPassword, url.QueryEscape(userPassword), "$2a$"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the Proxy holds %q", secret)
		}
	}
	w.untilEvents("berlin-1", v1alpha1.ConditionReady) // which reads each event for the password
}

func TestProxy_oneEventForEachTransition(t *testing.T) {
	w := newWorld(t)
	w.ready("berlin-1")
	w.untilEvents("berlin-1", v1alpha1.ConditionReady, v1alpha1.ConditionProvisioned)
}

func TestProxy_whatTheAPIRefuses(t *testing.T) {
	w := newWorld(t)
	cases := map[string]struct {
		reason string
		edit   func(*v1alpha1.Proxy)
		says   string
	}{
		"NoAccessRule":  {"a proxy for everybody is an open relay", func(p *v1alpha1.Proxy) { p.Spec.Auth = nil }, "open relay"},
		"AllSources":    {"so is one for all sources without auth", func(p *v1alpha1.Proxy) { p.Spec.Auth, p.Spec.AllowedSources = nil, []string{"0.0.0.0/0"} }, "open relay"},
		"AllSourcesIn6": {"also in IPv6", func(p *v1alpha1.Proxy) { p.Spec.Auth, p.Spec.AllowedSources = nil, []string{"::/0"} }, "open relay"},
		"NotACIDR":      {"a source is a network", func(p *v1alpha1.Proxy) { p.Spec.AllowedSources = []string{"192.0.2.1"} }, "must be CIDRs"},
		"NotADomain":    {"a destination is a name", func(p *v1alpha1.Proxy) { p.Spec.AllowedDestinations = []string{"https://example.org/"} }, "allowedDestinations"},
		"NotAnAddress":  {"an egress IP is an address", func(p *v1alpha1.Proxy) { p.Spec.ExpectedEgressIP = "example.org" }, "IP address"},
		"Port":          {"a port has a range", func(p *v1alpha1.Proxy) { p.Spec.Port = 80 }, "port"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := admin.Create(t.Context(), w.proxy("refused", tc.edit), client.DryRunAll)
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: want it refused with %q, got %v", tc.reason, tc.says, err)
			}
		})
	}
	w.apply("fixed")
	for name, edit := range map[string]func(*v1alpha1.Proxy){
		"Provider":  func(p *v1alpha1.Proxy) { p.Spec.Provider = "another" },
		"Placement": func(p *v1alpha1.Proxy) { p.Spec.Placement.Zone = "another" },
	} {
		t.Run("Immutable"+name, func(t *testing.T) {
			p, err := w.get(t.Context(), "fixed")
			if err != nil {
				t.Fatal(err)
			}
			edit(p)
			if err := admin.Update(t.Context(), p); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "cannot be changed") {
				t.Errorf("an instance cannot move: want the change refused, got %v", err)
			}
		})
	}
}
