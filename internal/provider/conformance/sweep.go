package conformance

import (
	"errors"
	"fmt"
)

// sweep is one round of a fault that goes through the calls of something, one call after the other.
type sweep struct {
	e      *exam
	faults []Fault
	nth    int
	start  int
	calls  []Call
	armed  bool
	lacks  FaultKind
}

// Ways to cut something off at its nth call.
func diesBefore(n int) []Fault { return []Fault{{Kind: Dropped, First: n}} }

func diesAfter(n int) []Fault {
	return []Fault{{Kind: Lost, First: n, Count: 1}, {Kind: Dropped, First: n + 1}}
}

// once gives a fault that one call meets.
func once(kind FaultKind) func(n int) []Fault {
	return func(n int) []Fault { return []Fault{{Kind: kind, First: n, Count: 1}} }
}

// maxCalls is where a sweep ends at the latest: what a broken provider leaves behind can make its calls more with
// each round.
const maxCalls = 100

// everyCall runs round for the first call of what it does after arm, then for the second, until there are no
// more. Where the harness cannot make the fault, it notes that for the rules.
func (e *exam) everyCall(faults func(n int) []Fault, rules []string, round func(s *sweep)) {
	if e.h.Faults == nil {
		e.lacks("fault injection", rules...)
		return
	}
	for n := 1; n <= maxCalls; n += max(1, e.h.Stride) {
		s := &sweep{e: e, faults: faults(n), nth: n}
		round(s)
		s.disarm()
		if s.lacks != "" {
			e.lacks("fault: "+string(s.lacks), rules...)
			return
		}
		if !s.armed || len(s.calls) < n {
			return
		}
	}
}

// arm arms the faults. It reports false where the harness cannot make them; the round ends then.
func (s *sweep) arm() bool {
	s.start = len(s.e.h.Faults.Calls())
	for _, f := range s.faults {
		err := s.e.h.Faults.Arm(f)
		if errors.Is(err, errors.ErrUnsupported) {
			s.e.h.Faults.Disarm()
			s.lacks = f.Kind
			return false
		}
		s.e.need(err == nil, "arm the fault %q: %v", f.Kind, err)
	}
	s.armed = true
	return true
}

// disarm ends the faults, and notes the calls that were made under them.
func (s *sweep) disarm() {
	s.e.h.Faults.Disarm()
	if s.armed && s.calls == nil {
		s.calls = s.e.h.Faults.Calls()[s.start:]
	}
}

// hit gives the call that met the fault.
func (s *sweep) hit() (Call, bool) {
	if len(s.calls) < s.nth {
		return Call{}, false
	}
	return s.calls[s.nth-1], true
}

// at says where the fault was, for a failure's text.
func (s *sweep) at() string {
	call, ok := s.hit()
	if !ok {
		return "without a fault"
	}
	last := s.faults[len(s.faults)-1]
	text := fmt.Sprintf("call %d, %s: %s", s.nth, call.Name, s.faults[0].Kind)
	if last.Count == 0 {
		text += ", and no call after it got through"
	}
	return text
}

// under runs what with faults armed and disarms them. It reports false where the harness cannot make them.
func (e *exam) under(faults []Fault, rules []string, what func()) bool {
	if e.h.Faults == nil {
		e.lacks("fault injection", rules...)
		return false
	}
	s := &sweep{e: e, faults: faults, nth: 1}
	if !s.arm() {
		e.lacks("fault: "+string(s.lacks), rules...)
		return false
	}
	what()
	s.disarm()
	return true
}

// callsOf counts the backend calls of something. It reports false where the harness cannot count.
func (e *exam) callsOf(rules []string, what func()) (int, bool) {
	if e.h.Faults == nil {
		e.lacks("count of backend calls", rules...)
		what()
		return 0, false
	}
	before := len(e.h.Faults.Calls())
	what()
	return len(e.h.Faults.Calls()) - before, true
}

// silent tries that something makes no backend call.
func (e *exam) silent(rule, text string, what func()) {
	if n, ok := e.callsOf([]string{rule}, what); ok {
		e.must(rule, n == 0, "%s made %d backend calls, want none", text, n)
	}
}
