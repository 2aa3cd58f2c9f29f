package fake

import (
	"context"
	"sync"
)

// Call names a point at which a test can count, fail and block: the provider's methods as a whole, before
// they do anything, and the calls on the backend that they are made of.
type Call string

// The methods.
const (
	Create    Call = "create"
	Get       Call = "get"
	Delete    Call = "delete"
	ListByTag Call = "list"
	Check     Call = "check" // once per host
)

// The calls on the backend. Create is LookUp, MakeDisk, Define, Start; Delete is LookUp, StopInstance,
// LookUp, Undefine, RemoveDisk.
const (
	LookUp       Call = "look up"
	MakeDisk     Call = "make disk"
	Define       Call = "define"
	Start        Call = "start"
	StopInstance Call = "stop"
	Undefine     Call = "undefine"
	RemoveDisk   Call = "remove disk"
	ListZone     Call = "list zone"
)

// script is what a test said of one call.
type script struct {
	count  int
	faults []fault // the next calls' ones, in order
	gate   *Gate
}

// fault is how one call goes wrong.
type fault struct {
	err  error
	lost bool // it takes effect all the same
}

// Interceptor stands before every call on the backend. effect makes the call take effect; what Interceptor returns
// is how the call ends.
type Interceptor func(ctx context.Context, call Call, zone string, effect func() error) error

// Intercept puts an interceptor before the backend; nil takes it away.
func (b *Backend) Intercept(through Interceptor) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.through = through
}

// Fail makes the next n calls end in err without any effect.
func (b *Backend) Fail(call Call, n int, err error) { b.script(call, n, fault{err: err}) }

// LoseAnswer makes the next n calls take effect and end in err all the same. A method as a whole has no
// effect of its own to lose the answer of: for methods it is Fail.
func (b *Backend) LoseAnswer(call Call, n int, err error) {
	b.script(call, n, fault{err: err, lost: true})
}

func (b *Backend) script(call Call, n int, f fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.of(call)
	for range n {
		s.faults = append(s.faults, f)
	}
}

// Calls counts how often a call was made.
func (b *Backend) Calls(call Call) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of(call).count
}

// of gives a call's script. The caller holds the lock.
func (b *Backend) of(call Call) *script {
	s, ok := b.scripts[call]
	if !ok {
		s = &script{}
		b.scripts[call] = s
	}
	return s
}

// Gate holds calls up.
type Gate struct {
	arrived chan struct{}
	open    chan struct{}
	once    sync.Once
}

// Block holds up every call from now on, before it has any effect, until the gate is opened or the call's
// ctx ends.
func (b *Backend) Block(call Call) *Gate {
	g := &Gate{arrived: make(chan struct{}, 1024), open: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of(call).gate = g
	return g
}

// Arrived gets one value for each call that came to the gate.
func (g *Gate) Arrived() <-chan struct{} { return g.arrived }

// Open lets the calls through, those that wait and those that come later. It may be called again.
func (g *Gate) Open() { g.once.Do(func() { close(g.open) }) }

// enter counts a call, waits at its gate, and gives the error that it ends in: err before any effect, lost
// after it.
func (b *Backend) enter(ctx context.Context, call Call) (lost, err error) {
	b.mu.Lock()
	s := b.of(call)
	s.count++
	var f fault
	if len(s.faults) > 0 {
		f, s.faults = s.faults[0], s.faults[1:]
	}
	gate := s.gate
	b.mu.Unlock()

	if gate != nil {
		select {
		case gate.arrived <- struct{}{}:
		default: // nobody counts that far
		}
		select {
		case <-gate.open:
		case <-ctx.Done():
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case f.lost:
		return f.err, nil
	}
	return nil, f.err
}
