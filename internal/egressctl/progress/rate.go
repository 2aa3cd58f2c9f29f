package progress

import "time"

// rateWindow is how far back the rate looks: long enough to be calm, short enough to be true.
const rateWindow = 10 * time.Second

// sampleEvery keeps the samples few, however often a transfer reports.
const sampleEvery = 500 * time.Millisecond

type sample struct {
	at   time.Time
	done int64
}

// rate measures bytes per second over the last seconds.
type rate struct {
	samples []sample
	last    sample
}

func (r *rate) add(at time.Time, done int64) {
	if done < r.last.done { // it began again
		r.samples = nil
	}
	r.last = sample{at, done}
	if n := len(r.samples); n == 0 || at.Sub(r.samples[n-1].at) >= sampleEvery {
		r.samples = append(r.samples, r.last)
	}
	for len(r.samples) > 1 && at.Sub(r.samples[0].at) > rateWindow {
		r.samples = r.samples[1:]
	}
}

// perSecond is 0 as long as too little is known. It sinks while nothing arrives.
func (r *rate) perSecond(now time.Time) float64 {
	if len(r.samples) == 0 {
		return 0
	}
	first := r.samples[0]
	span := now.Sub(first.at)
	if r.last.done == first.done || span < sampleEvery {
		return 0
	}
	return float64(r.last.done-first.done) / span.Seconds()
}
