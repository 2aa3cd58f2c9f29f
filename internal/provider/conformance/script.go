package conformance

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Script is Faults for a seam: what stands between the provider's logic and the backend's client hands every
// call to Through.
type Script struct {
	// Errors are what the client gives for each kind of fault. A kind without one cannot be made; Nothing, Hanging and
	// Lost need none, but Lost is told as Dropped.
	Errors map[FaultKind]error
	// Tell, where it is set, gives what the client says of a call that meets one of Errors, for example with the
	// call's host in it.
	Tell func(Call, FaultKind, error) error
	// Drop, where it is set, ends the connections to a host: with Dropped, Lost and Unreachable.
	Drop func(host string)

	mu     sync.Mutex
	calls  []Call
	faults []*armed
}

// armed is a fault with what has become of it.
type armed struct {
	Fault
	seen     int
	disarmed chan struct{}
}

var _ Faults = (*Script)(nil)

// Arm implements Faults.
func (s *Script) Arm(f Fault) error {
	needs := f.Kind
	switch f.Kind {
	case Nothing, Hanging:
		needs = ""
	case Lost:
		needs = Dropped
	default:
	}
	if needs != "" && s.Errors[needs] == nil {
		return errors.ErrUnsupported
	}
	if f.Kind == Unreachable && s.Drop != nil {
		s.Drop(f.Host)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &armed{Fault: f, disarmed: make(chan struct{})})
	return nil
}

// Disarm implements Faults.
func (s *Script) Disarm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		close(f.disarmed)
	}
	s.faults = nil
}

// Calls implements Faults.
func (s *Script) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Down gives the error of a connection to the host, where it cannot be reached. Dialers ask it.
func (s *Script) Down(host string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		if f.Kind == Unreachable && (f.Host == "" || f.Host == host) {
			return s.tell(Call{Host: host}, Unreachable)
		}
	}
	return nil
}

// Through takes a call to the backend, or to the fault that it meets. effect makes the call.
func (s *Script) Through(ctx context.Context, c Call, effect func() error) error {
	f, dos := s.enter(c)
	for _, do := range dos {
		do(c)
	}
	if f == nil {
		return effect()
	}
	switch f.Kind {
	case Hanging:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.disarmed:
			return effect()
		}
	case Lost:
		if err := effect(); err != nil {
			return err
		}
		s.drop(c.Host)
		return s.tell(c, Dropped)
	case Dropped, Unreachable:
		s.drop(c.Host)
	default:
	}
	return s.tell(c, f.Kind)
}

func (s *Script) tell(c Call, kind FaultKind) error {
	err := s.Errors[kind]
	if s.Tell != nil {
		err = s.Tell(c, kind, err)
	}
	return err
}

func (s *Script) drop(host string) {
	if s.Drop != nil {
		s.Drop(host)
	}
}

// enter notes a call and gives the fault that it meets, and what is to be done meanwhile.
func (s *Script) enter(c Call) (hit *armed, dos []func(Call)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, c)
	for _, f := range s.faults {
		if f.Host != "" && f.Host != c.Host {
			continue
		}
		f.seen++
		if f.Kind != Unreachable && (f.seen < f.First || (f.Count > 0 && f.seen >= f.First+f.Count)) {
			continue
		}
		if f.Do != nil {
			dos = append(dos, f.Do)
		}
		if hit == nil && f.Kind != Nothing {
			hit = f
		}
	}
	return hit, dos
}
