package probe

import (
	"context"
	"fmt"
	"time"
)

// DefaultInterval is Wait's pause between two requests.
const DefaultInterval = 2 * time.Second

// Attempt is one request of Wait.
type Attempt struct {
	// Number counts from 1.
	Number int
	Result Result
	// Err is nil for the last attempt of a Wait that succeeds.
	Err error
	// Elapsed since Wait began.
	Elapsed time.Duration
}

// Wait asks until a request passes, pausing for interval (0: DefaultInterval) after each that does not,
// and tells onAttempt, if there is one, of each. It ends early only when the options are invalid, or
// when ctx ends; then the error is that of the last request that ctx did not cut off, an *Error.
func Wait(ctx context.Context, o Options, interval time.Duration, onAttempt func(Attempt)) (Result, error) {
	if interval <= 0 {
		interval = DefaultInterval
	}
	started := time.Now()
	var last Attempt
	for n := 1; ; n++ {
		r, err := Request(ctx, o)
		attempt := Attempt{Number: n, Result: r, Err: err, Elapsed: time.Since(started)}
		cutOff := err != nil && ctx.Err() != nil
		if !cutOff || last.Err == nil {
			last = attempt
		}
		if onAttempt != nil && !cutOff {
			onAttempt(attempt)
		}
		if err == nil || ReasonOf(err) == ReasonInvalidOptions {
			return r, err
		}
		if !pause(ctx, interval) {
			elapsed := time.Since(started).Round(time.Second)
			return last.Result, &Error{
				Reason: ReasonOf(last.Err), Message: fmt.Sprintf("no request passed in %s, after %d attempts", elapsed, n), Err: last.Err,
			}
		}
	}
}

// pause waits, and says whether ctx still holds.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}
