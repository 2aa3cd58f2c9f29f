package proxy

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/probe"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// view is all that the conditions of a Proxy depend on.
type view struct {
	running  jobKind
	last     *outcome
	verified bool // there is a check URL
	outdated bool // the instance was made from other inputs than the present ones
}

// verdict is one condition without its type.
type verdict struct {
	status          metav1.ConditionStatus
	reason, message string
}

func yes(reason, message string) verdict { return verdict{metav1.ConditionTrue, reason, message} }
func no(reason, message string) verdict  { return verdict{metav1.ConditionFalse, reason, message} }
func unknown(reason, message string) verdict {
	return verdict{metav1.ConditionUnknown, reason, message}
}

// describe sets all four conditions from v. Ready is the summary: a request that passed makes it true,
// else it has the reason of the first step that is not done.
func describe(p *v1alpha1.Proxy, v view) {
	if v.last == nil && meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProvisioned) != nil {
		return // after a restart, what was known before stands until the first look
	}
	provisioned := provisionedVerdict(p, v)
	address := no(v1alpha1.ReasonWaitingForVM, "the VM does not run yet")
	switch {
	case p.Status.Address != "":
		address = yes(v1alpha1.ReasonAddressAssigned, "the VM has the address "+p.Status.Address)
	case provisioned.status == metav1.ConditionTrue:
		address = no(v1alpha1.ReasonBooting, "the VM runs and has no address yet")
	}
	serving, ready := no(v1alpha1.ReasonWaitingForVM, "the VM has no address yet"), verdict{}
	if v.last != nil && v.last.probed {
		serving, ready = probeVerdicts(v)
	}
	if ready.status == "" {
		ready = firstNot(provisioned, address, serving)
	}
	set(p, v1alpha1.ConditionProvisioned, provisioned)
	set(p, v1alpha1.ConditionAddressAssigned, address)
	set(p, v1alpha1.ConditionServing, serving)
	set(p, v1alpha1.ConditionReady, ready)
}

// provisionedVerdict says whether the VM exists and runs.
func provisionedVerdict(p *v1alpha1.Proxy, v view) verdict {
	last := v.last
	switch {
	case v.running == jobCreate && (last == nil || !last.failed()):
		return no(v1alpha1.ReasonCreating, "the provider makes the VM")
	case last == nil:
		return no(v1alpha1.ReasonCreating, "the provider makes the VM")
	case last.gone() && last.kind == jobObserve && p.Status.ProvisionedAt != nil:
		return no(v1alpha1.ReasonVanished, "the VM is gone, and is made anew")
	case last.gone():
		return no(v1alpha1.ReasonCreating, "the provider makes the VM")
	case last.err != nil && last.kind == jobObserve:
		return unknown(provider.ReasonOf(last.err), retryMessage(last))
	case last.err != nil:
		return no(provider.ReasonOf(last.err), retryMessage(last))
	case last.stopped():
		return no(v1alpha1.ReasonStopped, "the VM does not run, and is started again")
	}
	return yes(v1alpha1.ReasonRunning, "the VM runs")
}

// probeVerdicts says what came of the request: Serving, and Ready.
func probeVerdicts(v view) (serving, ready verdict) {
	last := v.last
	serving = yes(v1alpha1.ReasonAccepted, "the proxy accepted our credential")
	switch {
	case last.probeErr == nil && !v.verified:
		ready = yes(v1alpha1.ReasonNotVerified, "the proxy serves; no check URL is configured, so no request was made through it")
	case last.probeErr == nil:
		ready = yes(v1alpha1.ReasonRequestPassed, "a request passed, seen from "+orUnknown(addrText(last.probe.EgressIP)))
	default:
		ready = no(probeReason(last.probeErr), last.probeErr.Error())
		if !last.probe.ProxyAnswered {
			serving = ready
		}
	}
	if v.outdated && ready.status == metav1.ConditionTrue {
		ready = yes(v1alpha1.ReasonReplacementNeeded, ready.message+"; the VM was made from an earlier spec or Secret: set the annotation "+
			v1alpha1.AnnotationReplace+"=now to replace it")
	}
	return serving, ready
}

func orUnknown(ip string) string {
	if ip == "" {
		return "an address that it did not tell"
	}
	return ip
}

// probeReason gives the condition's reason for a request that did not pass.
func probeReason(err error) string {
	var unexpected *unexpectedEgress
	if errors.As(err, &unexpected) {
		return v1alpha1.ReasonUnexpectedEgressIP
	}
	return string(probe.ReasonOf(err))
}

func firstNot(verdicts ...verdict) verdict {
	for _, v := range verdicts {
		if v.status != metav1.ConditionTrue {
			return v
		}
	}
	return verdicts[len(verdicts)-1]
}

// blocked says in Ready why nothing goes on; what else was seen of the VM stands.
func blocked(p *v1alpha1.Proxy, reason, message string) {
	set(p, v1alpha1.ConditionReady, no(reason, message))
}

// retryMessage is a provider's error with its class and when the next attempt is due.
func retryMessage(o *outcome) string {
	class := provider.ClassOf(o.err)
	return fmt.Sprintf("%v (%v; attempt %d, next at %s)", o.err, class, o.failures, o.next.UTC().Format(time.TimeOnly+"Z"))
}

// maxMessage is what the API allows in a condition.
const maxMessage = 32768

func set(p *v1alpha1.Proxy, kind string, v verdict) {
	if len(v.message) > maxMessage {
		v.message = v.message[:maxMessage]
	}
	meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{
		Type: kind, Status: v.status, Reason: v.reason, Message: v.message, ObservedGeneration: p.Generation,
	})
}
