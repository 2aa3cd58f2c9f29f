package probe_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/probe"
)

func TestWait_untilARequestPasses(t *testing.T) {
	o := origin(t, 200, "192.0.2.7")
	good := &relay{}
	var calls atomic.Int32
	endpoint := listen(t, func(conn net.Conn) {
		if calls.Add(1) < 4 {
			return // a proxy that is not there yet
		}
		good.handle(conn)
	})
	var reasons []probe.Reason
	var numbers []int
	got, err := probe.Wait(t.Context(), probe.Options{Endpoint: endpoint, CheckURL: o.URL}, time.Millisecond, func(a probe.Attempt) {
		reasons = append(reasons, probe.ReasonOf(a.Err))
		numbers = append(numbers, a.Number)
	})
	if err != nil || got.Status != 200 {
		t.Errorf("got %+v, %v, want the answer of the request that passed", got, err)
	}
	bad := probe.ReasonProxyInvalidAnswer
	if diff := cmp.Diff([]probe.Reason{bad, bad, bad, ""}, reasons); diff != "" {
		t.Errorf("attempts' reasons -want, +got:\n%s", diff)
	}
	if diff := cmp.Diff([]int{1, 2, 3, 4}, numbers); diff != "" {
		t.Errorf("attempts' numbers -want, +got:\n%s", diff)
	}
}

func TestWait_endsWithCtxAndSaysWhatWasWrong(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	endpoint := listen(t, (&relay{credential: "Basic other"}).handle)
	got, err := probe.Wait(ctx, probe.Options{Endpoint: endpoint, User: "u", Password: "p", CheckURL: "http://x.test/"}, time.Hour, func(probe.Attempt) { cancel() })
	if probe.ReasonOf(err) != probe.ReasonProxyAuthRejected || got.Status != 407 {
		t.Errorf("got %+v, %v, want what the last request met", got, err)
	}
}

func TestWait_attemptThatCtxCutOffDoesNotHideTheOneBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var calls atomic.Int32
	rejecting := &relay{credential: "Basic other"}
	endpoint := listen(t, func(conn net.Conn) {
		if calls.Add(1) == 1 {
			rejecting.handle(conn)
			return
		}
		cancel()
		io.Copy(io.Discard, conn)
	})
	_, err := probe.Wait(ctx, probe.Options{Endpoint: endpoint, User: "u", Password: "p", CheckURL: "http://x.test/"}, time.Millisecond, nil)
	if probe.ReasonOf(err) != probe.ReasonProxyAuthRejected {
		t.Errorf("got %v, want the reason of the request that ended by itself", err)
	}
}

func TestWait_invalidOptionsEndItAtOnce(t *testing.T) {
	attempts := 0
	_, err := probe.Wait(t.Context(), probe.Options{Endpoint: "nonsense", CheckURL: "http://x.test/"}, time.Hour, func(probe.Attempt) { attempts++ })
	if probe.ReasonOf(err) != probe.ReasonInvalidOptions || attempts != 1 {
		t.Errorf("got %v after %d attempts, want %s after one: no time mends it", err, attempts, probe.ReasonInvalidOptions)
	}
}

func TestWait_canceledBeforeTheFirstAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := probe.Wait(ctx, probe.Options{Endpoint: "127.0.0.1:1", CheckURL: "http://x.test/"}, 0, nil)
	if probe.ReasonOf(err) != probe.ReasonCanceled || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want reason %s", err, probe.ReasonCanceled)
	}
}
