package proxy

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/probe"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

var (
	errGone      = provider.Errorf(provider.ErrNotFound, provider.ReasonNotFound, "no domain")
	errBusy      = provider.Errorf(provider.ErrTransient, provider.ReasonUnreachable, "no route")
	errForbidden = provider.Errorf(provider.ErrPermanent, provider.ReasonAuthFailed, "key refused")
	errFull      = provider.Errorf(provider.ErrQuotaExceeded, provider.ReasonQuotaExceeded, "pool full")
)

func saw(state provider.State) outcome {
	return outcome{kind: jobObserve, instance: provider.Instance{State: state}}
}

func TestNextJob(t *testing.T) {
	cases := map[string]struct {
		reason string
		last   *outcome
		want   jobKind
	}{
		"Unknown":      {"after a restart an instance is looked at before anything is done", nil, jobObserve},
		"Gone":         {"proved absence is what a create follows", &outcome{kind: jobObserve, err: errGone}, jobCreate},
		"Unreachable":  {"a doubt is no proof of absence", &outcome{kind: jobObserve, err: errBusy}, jobObserve},
		"Stopped":      {"a stopped instance is started through Create", new(saw(provider.StateStopped)), jobCreate},
		"Running":      {"a running instance is watched", new(saw(provider.StateRunning)), jobObserve},
		"Booting":      {"a booting instance is watched, never made again", new(saw(provider.StateProvisioning)), jobObserve},
		"CreateFailed": {"a failed create is tried again", &outcome{kind: jobCreate, err: errBusy}, jobCreate},
		"Created":      {"after a create the instance is looked at", &outcome{kind: jobCreate}, jobObserve},
		"Removed":      {"what a replacement removed is made again", &outcome{kind: jobDelete, err: errGone}, jobCreate},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, nextJob(tc.last)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestNextDelete_endsOnlyWithProof(t *testing.T) {
	cases := map[string]struct {
		last *outcome
		want jobKind
	}{
		"Unknown":             {nil, jobDelete},
		"ObservedGone":        {&outcome{kind: jobObserve, err: errGone}, jobDelete},
		"DeleteFailed":        {&outcome{kind: jobDelete, err: errBusy}, jobDelete},
		"HostNotConfigured":   {&outcome{kind: jobDelete, err: errForbidden}, jobDelete},
		"DeletedAndProvedOff": {&outcome{kind: jobDelete, err: errGone}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, nextDelete(tc.last)); diff != "" {
				t.Errorf("the finalizer goes only after a Delete and a Get that says NotFound: -want, +got:\n%s", diff)
			}
		})
	}
}

func TestOutcomes_pauses(t *testing.T) {
	passed := saw(provider.StateRunning)
	passed.probed, passed.probe = true, probe.Result{ProxyAnswered: true}
	silent := saw(provider.StateRunning)
	silent.probed, silent.probeErr = true, errors.New("refused")
	cases := map[string]struct {
		reason string
		seq    []outcome
		want   []time.Duration
	}{
		"Transient": {"transient failures double up to two minutes",
			[]outcome{{kind: jobCreate, err: errBusy}, {kind: jobCreate, err: errBusy}, {kind: jobCreate, err: errBusy}, {kind: jobCreate, err: errBusy}, {kind: jobCreate, err: errBusy}, {kind: jobCreate, err: errBusy}},
			[]time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 2 * time.Minute}},
		"Permanent": {"permanent failures are tried every five minutes, and not given up",
			[]outcome{{kind: jobCreate, err: errForbidden}, {kind: jobCreate, err: errForbidden}}, []time.Duration{5 * time.Minute, 5 * time.Minute}},
		"Quota":  {"a lack of room is tried each minute", []outcome{{kind: jobCreate, err: errFull}}, []time.Duration{time.Minute}},
		"Steady": {"a working proxy is looked at each minute", []outcome{passed}, []time.Duration{time.Minute}},
		"Silent": {"a proxy that does not answer yet is looked at often", []outcome{silent}, []time.Duration{pauseSlowBoot}},
		"Vanishing": {"an instance that vanishes again and again is not made again at full speed",
			[]outcome{{kind: jobObserve, err: errGone}, {kind: jobCreate}, {kind: jobObserve, err: errGone}, {kind: jobCreate}, {kind: jobObserve, err: errGone}},
			[]time.Duration{0, 0, 5 * time.Second, 0, 10 * time.Second}},
		"Healed": {"one that worked in between is repaired at once",
			[]outcome{{kind: jobObserve, err: errGone}, {kind: jobCreate}, passed, saw(provider.StateStopped)},
			[]time.Duration{0, 0, time.Minute, 0}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			s := &outcomes{last: map[types.NamespacedName]lastOf{}, now: func() time.Time { return now }, steady: time.Minute, jitter: func() float64 { return 1 }}
			who := subject{uid: "u"}
			var got []time.Duration
			for _, o := range tc.seq {
				s.put(who, o)
				got = append(got, s.get(who).next.Sub(now))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestOutcomes_anotherProxyOfTheNameIsAStranger(t *testing.T) {
	s := &outcomes{last: map[types.NamespacedName]lastOf{}, now: time.Now, jitter: func() float64 { return 1 }}
	key := types.NamespacedName{Namespace: "a", Name: "b"}
	s.put(subject{key, "first"}, outcome{kind: jobDelete, err: errGone})
	if got := s.get(subject{key, "second"}); got != nil {
		t.Errorf("a Proxy made anew under the name took over %+v from its predecessor", got)
	}
}
