package kvm2

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestKeepAlive_cutsAfterTheMissesInARow(t *testing.T) {
	l := defaultLimits()
	tests := map[string]struct {
		reason string
		// answer is what a ping gives; closed ends with the test.
		answer func(closed <-chan struct{}) error
		want   time.Duration // until the cut; 0: none within ten minutes
	}{
		"AlwaysAnswered": {"a living host is left alone",
			func(<-chan struct{}) error { return nil }, 0},
		"NeverAnswered": {"one interval until the first ping, then three misses",
			func(closed <-chan struct{}) error { <-closed; return nil }, 4 * l.keepaliveEvery},
		"LateAnswers": {"an answer after two misses starts the count again",
			func(closed <-chan struct{}) error {
				select {
				case <-closed:
				case <-time.After(40 * time.Second):
				}
				return nil
			}, 0},
		"Refused": {"a ping that cannot be sent says that the link is dead",
			func(<-chan struct{}) error { return errors.New("broken pipe") }, l.keepaliveEvery},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				done, closed := make(chan struct{}), make(chan struct{})
				defer close(closed)
				start := time.Now()
				var cut time.Duration
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					keepAlive(l, done, func() error { return tc.answer(closed) }, func() { cut = time.Since(start) })
				}()
				select {
				case <-ended:
				case <-time.After(10 * time.Minute):
					close(done)
					<-ended
				}
				if cut != tc.want {
					t.Errorf("cut after %v, want %v: %s", cut, tc.want, tc.reason)
				}
			})
		})
	}
}
