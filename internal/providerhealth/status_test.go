package providerhealth

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

func checked(ready bool, available string, latency time.Duration) []provider.HostCheck {
	reason, message := provider.ReasonReady, "can take instances"
	if !ready {
		reason, message = provider.ReasonPoolNotActive, "start the pool"
	}
	return []provider.HostCheck{{Host: "beelink", Ready: ready, Reason: reason, Message: message, Latency: latency,
		Details: []provider.Detail{{Key: "pool", Value: "default"}, {Key: "poolAvailableGiB", Value: available}}}}
}

func TestDue_onlyWhatSomebodyWouldWantToKnow(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		reason string
		age    time.Duration
		fresh  []provider.HostCheck
		want   bool
	}{
		"Same":       {"nothing changed", time.Minute, checked(true, "100.0", time.Second), false},
		"Latency":    {"latency always moves", time.Minute, checked(true, "100.0", 9*time.Second), false},
		"SmallSpace": {"free space moves by less than 5 %", time.Minute, checked(true, "96.0", time.Second), false},
		"Space":      {"free space moved by 5 %", time.Minute, checked(true, "95.0", time.Second), true},
		"NotReady":   {"a host can no longer be used", time.Minute, checked(false, "100.0", time.Second), true},
		"Heartbeat":  {"ten minutes have passed", 10 * time.Minute, checked(true, "100.0", time.Second), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			old := statusOf(provider.TypeKVM2, checked(true, "100.0", time.Second))
			old.LastCheckTime = &metav1.Time{Time: now.Add(-tc.age)}
			fresh := statusOf(provider.TypeKVM2, tc.fresh)
			if got := due(&old, &fresh, now); got != tc.want {
				t.Errorf("%s: written %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}

func TestDue_whenTheEntryOrTheFileChanged(t *testing.T) {
	now := time.Now()
	cases := map[string]struct {
		reason string
		change func(*v1alpha1.ProviderHealthStatus)
		want   bool
	}{
		"Same":  {"nothing changed", func(*v1alpha1.ProviderHealthStatus) {}, false},
		"Entry": {"the entry's change was taken over", func(s *v1alpha1.ProviderHealthStatus) { s.ConfigHash = "2" }, true},
		"File": {"the file cannot be used", func(s *v1alpha1.ProviderHealthStatus) {
			s.Conditions[1] = current(errors.New("providers file: line 3: not YAML"))
		}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			old := statusOf(provider.TypeKVM2, checked(true, "100.0", time.Second))
			old.Conditions = append(old.Conditions, current(nil))
			old.ConfigHash, old.LastCheckTime = "1", &metav1.Time{Time: now}
			fresh := *old.DeepCopy()
			tc.change(&fresh)
			if got := due(&old, &fresh, now); got != tc.want {
				t.Errorf("%s: written %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}

func TestStatusOf_namesTheFirstHostThatCannotBeUsed(t *testing.T) {
	checks := append(checked(true, "1", 0), checked(false, "1", 0)...)
	checks[1].Host = "attic"
	status := statusOf(provider.TypeKVM2, checks)
	want := []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonHostsNotReady,
		Message: "1 of 2 hosts cannot be used; host attic: start the pool"}}
	if diff := cmp.Diff(want, status.Conditions); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestStatusOf_whatAHostSendsFitsTheAPI(t *testing.T) {
	huge := strings.Repeat("ü", 10_000)
	checks := []provider.HostCheck{{Host: "beelink", Reason: huge, Message: huge, Details: []provider.Detail{{Key: "hostname", Value: huge}}}}
	host := statusOf(provider.TypeKVM2, checks).Hosts[0]
	if len(host.Reason) > maxReason || len(host.Message) > maxMessage || len(host.Details[0].Value) > maxDetailVal {
		t.Errorf("lengths: reason %d, message %d, detail %d", len(host.Reason), len(host.Message), len(host.Details[0].Value))
	}
	if !strings.HasSuffix(host.Message, "ü") {
		t.Errorf("a text is cut between characters: %q", host.Message[len(host.Message)-4:])
	}
}
