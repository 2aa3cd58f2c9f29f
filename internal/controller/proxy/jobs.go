package proxy

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// jobKind is what a job does to an instance.
type jobKind string

const (
	jobCreate  jobKind = "create"
	jobObserve jobKind = "observe"
	jobDelete  jobKind = "delete"
)

// Limits of the jobs that run at once for one host. Creates have a limit of their own, so that a slow
// image transfer does not hold up what is being watched or deleted there.
const (
	createsPerHost = 4
	othersPerHost  = 8
)

// jobs runs work on instances outside the reconcile workers.
type jobs struct {
	ctx    context.Context // ends every job; a struct field since jobs outlive the calls that start them
	cancel context.CancelFunc
	wake   func(context.Context, types.NamespacedName)
	wait   sync.WaitGroup

	mu      sync.Mutex
	stopped bool
	running map[types.UID]runningJob
	slots   map[string]chan struct{}
}

type runningJob struct {
	kind   jobKind
	cancel context.CancelFunc
}

// newJobs makes jobs that end with ctx. wake is called after each job, from the job's goroutine, with a
// ctx that ends when the jobs do.
func newJobs(ctx context.Context, wake func(context.Context, types.NamespacedName)) *jobs {
	ctx, cancel := context.WithCancel(ctx)
	return &jobs{
		ctx: ctx, cancel: cancel, wake: wake,
		running: map[types.UID]runningJob{},
		slots:   map[string]chan struct{}{},
	}
}

// start runs work for a Proxy unless one is running for it already. It never blocks: the job waits
// for its host's turn in its own goroutine. work gets the values of ctx, and a ctx
// that outlives it.
func (j *jobs) start(ctx context.Context, key types.NamespacedName, uid types.UID, host string, kind jobKind, work func(context.Context)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, busy := j.running[uid]; busy || j.stopped {
		return
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(j.ctx, cancel) //nolint:contextcheck // a job has the values of its caller and the end of the jobs
	slot := j.slot(host, kind)
	j.running[uid] = runningJob{kind: kind, cancel: cancel}
	j.wait.Go(func() {
		defer stop()
		defer cancel()
		select {
		case slot <- struct{}{}:
			work(ctx)
			<-slot
		case <-ctx.Done():
		}
		j.mu.Lock()
		delete(j.running, uid)
		j.mu.Unlock()
		j.wake(j.ctx, key) //nolint:contextcheck // the job's own ctx has ended by now
	})
}

// slot gives the semaphore of a host and a kind; j.mu is held.
func (j *jobs) slot(host string, kind jobKind) chan struct{} {
	size, key := othersPerHost, host
	if kind == jobCreate {
		size, key = createsPerHost, host+" create"
	}
	if j.slots[key] == nil {
		j.slots[key] = make(chan struct{}, size)
	}
	return j.slots[key]
}

// kindOf gives what is running for a Proxy, "" for nothing.
func (j *jobs) kindOf(uid types.UID) jobKind {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.running[uid].kind
}

// stop cancels what is running for a Proxy. The job goes on until its work returns.
func (j *jobs) stop(uid types.UID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if job, busy := j.running[uid]; busy {
		job.cancel()
	}
}

// close cancels every job and waits for them.
func (j *jobs) close() {
	j.mu.Lock()
	j.stopped = true
	j.mu.Unlock()
	j.cancel()
	j.wait.Wait()
}
