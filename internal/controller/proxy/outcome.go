package proxy

import (
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/probe"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// outcome is how a job ended.
type outcome struct {
	kind jobKind
	// basis is what the job worked from: see pass.basis. A change of it makes the next job due at once.
	basis string
	// err of the provider's call; nil when it succeeded.
	err error
	// instance that an observe saw, when err is nil.
	instance provider.Instance
	// probed says that a request was tried; probe and probeErr are what came of it.
	probed   bool
	probe    probe.Result
	probeErr error
	// ended and next are when the job ended and when the following one is due.
	ended, next time.Time
	// failures counts the outcomes of this kind that failed in a row, this one included.
	failures int
	// repairs counts how often the instance was found gone or stopped since a request last passed, so
	// that one that dies again and again is not made again and again at full speed.
	repairs int
}

// gone says that the backend proved that the instance does not exist.
func (o *outcome) gone() bool { return o.kind != jobCreate && errors.Is(o.err, provider.ErrNotFound) }

// stopped says that the instance exists and does not run.
func (o *outcome) stopped() bool {
	return o.kind == jobObserve && o.err == nil && o.instance.State == provider.StateStopped
}

// passed says that a request went through.
func (o *outcome) passed() bool { return o.probed && o.probeErr == nil }

// failed says that the job did not get what it went for: a retry is in order.
func (o *outcome) failed() bool { return o.err != nil && !o.gone() }

// subject is a Proxy of one name and one life: another Proxy of its name is another subject.
type subject struct {
	key types.NamespacedName
	uid types.UID
}

func subjectOf(p *v1alpha1.Proxy) subject {
	return subject{key: types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, uid: p.UID}
}

// outcomes keeps the last outcome of each Proxy. It lives as long as the process: after a restart the
// first job of each Proxy looks at its instance.
type outcomes struct {
	mu   sync.Mutex
	last map[types.NamespacedName]lastOf
	now  func() time.Time
	// steady is the pause after a look at a proxy that works.
	steady time.Duration
	// jitter gives a factor around 1.
	jitter func() float64
}

type lastOf struct {
	uid types.UID
	outcome
}

// put stores o and works out when the next job is due.
func (s *outcomes) put(who subject, o outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var before outcome
	if known := s.last[who.key]; known.uid == who.uid {
		before = known.outcome
	}
	if o.failed() {
		o.failures = 1
		if before.failed() && before.kind == o.kind {
			o.failures = before.failures + 1
		}
	}
	if !o.passed() {
		o.repairs = before.repairs
		if o.gone() || o.stopped() {
			o.repairs++
		}
	}
	o.ended = s.now()
	o.next = o.ended.Add(time.Duration(float64(pauseAfter(&o, s.steady)) * s.jitter()))
	s.last[who.key] = lastOf{who.uid, o}
}

// get gives the last outcome of a Proxy, nil when there is none.
func (s *outcomes) get(who subject) *outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.last[who.key]; ok && known.uid == who.uid {
		return &known.outcome
	}
	return nil
}

// forget drops what is known of the Proxy of that name.
func (s *outcomes) forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, key)
}

// hurry makes the next job of a Proxy due now, if its last one failed.
func (s *outcomes) hurry(who subject) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.last[who.key]; ok && known.uid == who.uid && known.failed() {
		known.next = s.now()
		s.last[who.key] = known
	}
}
