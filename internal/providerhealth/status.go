package providerhealth

import (
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Limits of the API on what a check may say.
const (
	maxHosts, maxDetails                = 256, 32
	maxReason, maxMessage               = 128, 1024
	maxName, maxDetailKey, maxDetailVal = 63, 63, 256
)

// statusOf turns the checks of an entry into a status, without its time.
func statusOf(entryType string, checks []provider.HostCheck) v1alpha1.ProviderHealthStatus {
	status := v1alpha1.ProviderHealthStatus{Type: entryType}
	condition := metav1.Condition{
		Type: v1alpha1.ConditionProviderReady, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonHealthy, Message: fmt.Sprintf("all %d hosts can be used", len(checks)),
	}
	bad := 0
	for _, check := range checks {
		if len(status.Hosts) < maxHosts {
			status.Hosts = append(status.Hosts, hostOf(check))
		}
		if check.Ready {
			continue
		}
		if bad++; bad == 1 {
			condition.Message = fmt.Sprintf("host %s: %s", check.Host, check.Message)
		}
	}
	if bad > 0 {
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonHostsNotReady
		condition.Message = cut(fmt.Sprintf("%d of %d hosts cannot be used; %s", bad, len(checks), condition.Message), maxMessage)
	}
	status.Conditions = []metav1.Condition{condition}
	return status
}

func hostOf(check provider.HostCheck) v1alpha1.HostHealth {
	host := v1alpha1.HostHealth{
		Name: cut(check.Host, maxName), Ready: check.Ready,
		Reason: cut(check.Reason, maxReason), Message: cut(check.Message, maxMessage),
		LatencyMilliseconds: check.Latency.Milliseconds(),
	}
	for _, d := range check.Details {
		if len(host.Details) < maxDetails {
			host.Details = append(host.Details, v1alpha1.HostDetail{Key: cut(d.Key, maxDetailKey), Value: cut(d.Value, maxDetailVal)})
		}
	}
	return host
}

// cut shortens s to at most limit bytes, between characters. A host may send anything.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// conditionOnly is the status of an entry that has nothing to check, or cannot be used.
func conditionOnly(entryType, reason, message string, status metav1.ConditionStatus) v1alpha1.ProviderHealthStatus {
	return v1alpha1.ProviderHealthStatus{Type: entryType, Conditions: []metav1.Condition{{
		Type: v1alpha1.ConditionProviderReady, Status: status, Reason: reason, Message: cut(message, maxMessage),
	}}}
}

// current says whether the providers file as it is now is what is in use.
func current(err error) metav1.Condition {
	if err != nil {
		return metav1.Condition{
			Type: v1alpha1.ConditionConfigCurrent, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonFileInvalid,
			Message: cut("the entries stay as they were: "+err.Error(), maxMessage),
		}
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionConfigCurrent, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonFileApplied,
		Message: "the providers file is in use as it is",
	}
}

// heartbeat is how often a status is written although nothing changed.
const heartbeat = 10 * time.Minute

// due says whether fresh is worth a write over old: it says something else, or old is a heartbeat old.
// Time, latency and small movements of free space are nothing else.
func due(old, fresh *v1alpha1.ProviderHealthStatus, now time.Time) bool {
	if old.LastCheckTime == nil || now.Sub(old.LastCheckTime.Time) >= heartbeat {
		return true
	}
	for _, is := range fresh.Conditions {
		was := meta.FindStatusCondition(old.Conditions, is.Type)
		if was == nil || was.Status != is.Status || was.Reason != is.Reason || was.Message != is.Message {
			return true
		}
	}
	return old.Type != fresh.Type || old.ConfigHash != fresh.ConfigHash || !equality.Semantic.DeepEqual(steady(old.Hosts, nil), steady(fresh.Hosts, old.Hosts))
}

// availableKey is the detail whose small movements do not count, in GiB.
const availableKey = "poolAvailableGiB"

// steady gives hosts without latency, and with the free space of before where it moved by less than 5 %.
func steady(hosts, before []v1alpha1.HostHealth) []v1alpha1.HostHealth {
	out := make([]v1alpha1.HostHealth, 0, len(hosts))
	for i := range hosts {
		host := *hosts[i].DeepCopy()
		host.LatencyMilliseconds = 0
		for d := range host.Details {
			if host.Details[d].Key != availableKey {
				continue
			}
			if was, ok := detail(before, host.Name, availableKey); ok && near(was, host.Details[d].Value) {
				host.Details[d].Value = was
			}
		}
		out = append(out, host)
	}
	return out
}

func detail(hosts []v1alpha1.HostHealth, name, key string) (string, bool) {
	for i := range hosts {
		if hosts[i].Name != name {
			continue
		}
		for _, d := range hosts[i].Details {
			if d.Key == key {
				return d.Value, true
			}
		}
	}
	return "", false
}

// near says that two amounts differ by less than 5 % of the first.
func near(was, is string) bool {
	a, errA := strconv.ParseFloat(was, 64)
	b, errB := strconv.ParseFloat(is, 64)
	if errA != nil || errB != nil {
		return was == is
	}
	step := a * 0.05
	return b > a-step && b < a+step || a == b
}
