package proxy

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"
)

func newTestJobs(ctx context.Context) (*jobs, chan types.NamespacedName) {
	woken := make(chan types.NamespacedName, 100)
	return newJobs(ctx, func(_ context.Context, key types.NamespacedName) { woken <- key }), woken
}

func TestJobs_oneForEachProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, woken := newTestJobs(t.Context())
		defer j.close()
		release := make(chan struct{})
		var ran atomic.Int32
		for range 3 {
			j.start(t.Context(), types.NamespacedName{Name: "a"}, "a", "h", jobCreate, func(context.Context) {
				ran.Add(1)
				<-release
			})
		}
		synctest.Wait()
		if got := ran.Load(); got != 1 {
			t.Errorf("jobs that run for one Proxy: got %d, want 1", got)
		}
		if got := j.kindOf("a"); got != jobCreate {
			t.Errorf("kind of the running job: got %q, want %q", got, jobCreate)
		}
		close(release)
		<-woken
		if got := j.kindOf("a"); got != "" {
			t.Errorf("the Proxy is woken after its job is gone: still %q", got)
		}
	})
}

func TestJobs_hostsAreBoundedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, _ := newTestJobs(t.Context())
		release := make(chan struct{})
		var slow, other, looks atomic.Int32
		block := func(n *atomic.Int32) func(context.Context) {
			return func(context.Context) {
				n.Add(1)
				<-release
			}
		}
		for i := range 10 {
			j.start(t.Context(), types.NamespacedName{}, types.UID("slow"+strconv.Itoa(i)), "slow", jobCreate, block(&slow))
		}
		j.start(t.Context(), types.NamespacedName{}, "other", "other", jobCreate, block(&other))
		j.start(t.Context(), types.NamespacedName{}, "look", "slow", jobObserve, block(&looks))
		synctest.Wait()
		if slow.Load() != createsPerHost || other.Load() != 1 || looks.Load() != 1 {
			t.Errorf("ten creates on a slow host: %d at once (want %d); on another host %d (want 1); looks at the slow host %d (want 1)",
				slow.Load(), createsPerHost, other.Load(), looks.Load())
		}
		close(release)
		j.close()
	})
}

func TestJobs_stopCancelsAlsoWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, woken := newTestJobs(t.Context())
		for i := range createsPerHost {
			j.start(t.Context(), types.NamespacedName{}, types.UID(strconv.Itoa(i)), "h", jobCreate, func(ctx context.Context) { <-ctx.Done() })
		}
		synctest.Wait()
		ran := false
		j.start(t.Context(), types.NamespacedName{Name: "waits"}, "waits", "h", jobCreate, func(context.Context) { ran = true })
		j.stop("waits")
		if got := <-woken; got.Name != "waits" || ran {
			t.Errorf("a cancelled job that waited for its host: woke %q, ran %v", got.Name, ran)
		}
		j.close()
	})
}

func TestJobs_closeEndsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, woken := newTestJobs(t.Context())
		j.start(t.Context(), types.NamespacedName{}, "a", "h", jobCreate, func(ctx context.Context) { <-ctx.Done() })
		synctest.Wait()
		j.close()
		if len(woken) != 1 {
			t.Errorf("close returned before the job ended")
		}
		j.start(t.Context(), types.NamespacedName{}, "b", "h", jobCreate, func(context.Context) { t.Error("a job started after close") })
		synctest.Wait()
	})
}
