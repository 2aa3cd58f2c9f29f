package kvm2

import (
	"context"
	"sync"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// flightID says what a transfer is of: one image to one pool of one host.
type flightID struct {
	host, pool string
	key        imageKey
}

// flights keeps transfers to one for each flightID, however many callers want it.
type flights struct {
	limit time.Duration // of one transfer

	mu     sync.Mutex
	flying map[flightID]*flight
	closed bool
	tasks  sync.WaitGroup
}

// flight is one transfer. It outlives the caller who began it as long as another waits for it, and is
// cancelled when the last one leaves.
type flight struct {
	// instance is the name of the one whose Create began it.
	instance string

	cancel context.CancelFunc
	done   chan struct{} // closed when it is over; result and err are set then
	result published
	err    error

	mu      sync.Mutex
	callers map[*caller]struct{}
	left    bool   // the last caller left: nobody can join any more
	base    string // the volume that it writes to; "" before there is one
}

// caller is one who waits: ctx carries where to report to.
type caller struct {
	imageUser

	ctx context.Context //nolint:containedctx // it ends when the caller leaves
}

func newFlights(limit time.Duration) *flights {
	return &flights{limit: limit, flying: map[flightID]*flight{}}
}

// do runs fly, or waits for the one that runs, and returns within a moment of ctx's end.
func (fs *flights) do(ctx context.Context, id flightID, user imageUser, fly func(context.Context, *flight) (published, error)) (published, error) {
	me := &caller{ctx: ctx, imageUser: user}
	for {
		f, err := fs.find(me, id, fly) //nolint:contextcheck // me carries ctx; a flight outlives each of its callers
		if err != nil {
			return published{}, err
		}
		joined := f.join(me)
		select {
		case <-f.done:
			if joined {
				return f.result, f.err
			}
			// It was being given up when this caller came: the next one is its own.
		case <-ctx.Done():
			f.leave(me)
			return published{}, ctx.Err()
		}
	}
}

// find gives the flight of id, a new one with the caller in it where none is under way.
func (fs *flights) find(c *caller, id flightID, fly func(context.Context, *flight) (published, error)) (*flight, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.flying[id]; f != nil {
		return f, nil
	}
	if fs.closed {
		return nil, provider.Errorf(provider.ErrTransient, provider.ReasonCanceled, "the provider was closed")
	}
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	// The first caller's span and logger are the transfer's; its end is not.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), fs.limit)
	f := &flight{instance: c.instance, cancel: cancel, done: make(chan struct{}), callers: map[*caller]struct{}{c: {}}}
	fs.flying[id] = f
	fs.tasks.Go(func() {
		defer cancel()
		f.result, f.err = fly(ctx, f)
		fs.mu.Lock()
		delete(fs.flying, id)
		fs.mu.Unlock()
		close(f.done)
	})
	return f, nil
}

// Close cancels every transfer and waits until each has cleaned up, which has a limit of its own.
func (fs *flights) Close() {
	fs.mu.Lock()
	fs.closed = true
	for _, f := range fs.flying {
		f.cancel()
	}
	fs.mu.Unlock()
	fs.tasks.Wait()
}

// join adds a caller, unless the flight is being given up.
func (f *flight) join(c *caller) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.left {
		f.callers[c] = struct{}{}
	}
	return !f.left
}

// leave takes a caller out, and gives the flight up when it was the last.
func (f *flight) leave(c *caller) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.callers, c)
	if len(f.callers) == 0 {
		f.left = true
		f.cancel()
	}
}

// report sends progress to everybody who waits.
func (f *flight) report(p provider.Progress) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.callers {
		provider.Report(c.ctx, p)
	}
}

// writes notes the volume that the flight is about to make, which no Delete may take for a dead one's.
func (f *flight) writes(base string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.base = base
}

// writing reports whether a flight of this process is at a volume.
func (fs *flights) writing(base string) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.flying {
		f.mu.Lock()
		found := f.base == base
		f.mu.Unlock()
		if found {
			return true
		}
	}
	return false
}

// largestDisk is the largest disk that a caller wants to make of the image.
func (f *flight) largestDisk() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	var largest uint64
	for c := range f.callers {
		largest = max(largest, c.diskBytes)
	}
	return largest
}
