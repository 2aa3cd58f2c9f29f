package proxy

import (
	"errors"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// How long to wait after an outcome, before jitter.
const (
	pauseBooting   = 3 * time.Second  // between looks at a VM that boots or does not answer yet
	pauseTransient = 5 * time.Second  // after the first transient failure, doubling
	pauseMost      = 2 * time.Minute  // after many transient failures
	pauseQuota     = time.Minute      // after a lack of room
	pausePermanent = 5 * time.Minute  // after what will not heal by itself
	pauseSlowBoot  = 10 * time.Second // between looks at a VM that has been booting for a while
	slowBoot       = 2 * time.Minute
)

// pauseAfter says how long after o the next job is due; steady is the pause for a proxy that works. It is zero where what was seen asks for
// something to be done.
func pauseAfter(o *outcome, steady time.Duration) time.Duration {
	switch {
	case o.kind == jobObserve && (o.gone() || o.stopped()):
		return growing(o.repairs - 1)
	case errors.Is(o.err, provider.ErrPermanent):
		return pausePermanent
	case errors.Is(o.err, provider.ErrQuotaExceeded):
		return pauseQuota
	case o.err != nil:
		return growing(o.failures)
	case o.kind != jobObserve:
		return 0
	case o.passed():
		return steady
	case o.ended.Sub(o.instance.CreatedAt) > slowBoot:
		return pauseSlowBoot
	}
	return pauseBooting
}

// growing is the pause before the nth repetition: none, then pauseTransient, doubling up to pauseMost.
func growing(n int) time.Duration {
	if n <= 0 {
		return 0
	}
	return min(pauseTransient<<min(n-1, 10), pauseMost)
}

// nextJob says what follows o for a Proxy that is wanted. o is nil when nothing is known.
func nextJob(o *outcome) jobKind {
	switch {
	case o == nil:
		return jobObserve
	case o.gone():
		return jobCreate
	case o.kind == jobCreate && o.err != nil:
		return jobCreate
	case o.stopped():
		return jobCreate
	}
	return jobObserve
}

// nextDelete says what follows o for a Proxy that goes away; "" when its instance is proved gone.
func nextDelete(o *outcome) jobKind {
	switch {
	case o == nil || o.kind != jobDelete:
		return jobDelete
	case o.gone():
		return ""
	}
	return jobDelete
}
