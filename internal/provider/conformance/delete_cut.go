package conformance

var deleteCutCases = []Case{
	{Name: "delete with a failing step", Rules: []string{"R2.4.12"}, try: deleteFails},
	{Name: "delete cut off at every call", Rules: []string{"R2.4.17"}, try: deleteCutOff},
}

// deleteFails lets each changing call of a Delete fail without an effect. Nil is right only where nothing is left.
func deleteFails(e *exam) {
	if _, ok := e.look("R2.4.12"); !ok {
		return
	}
	for _, kind := range []FaultKind{Strange, Denied} {
		e.everyCall(once(kind), []string{"R2.4.12"}, func(s *sweep) {
			req := e.request()
			id := e.create(req)
			if !s.arm() {
				return
			}
			err := e.p.Delete(e.ctx, id)
			s.disarm()
			if _, hit := s.hit(); hit {
				found, _ := e.look("R2.4.12")
				left := found.of(req.Name)
				e.must("R2.4.12", err != nil || len(left) == 0, "%s: Delete gives nil, and the backend still has %s", s.at(), left)
			}
			e.need(e.remove(e.p, id) == nil, "delete failed")
		})
	}
}

func deleteCutOff(e *exam) {
	if _, ok := e.look("R2.4.17"); !ok {
		return
	}
	for _, way := range []func(int) []Fault{diesBefore, diesAfter, once(Lost)} {
		e.everyCall(way, []string{"R2.4.17"}, func(s *sweep) {
			req := e.request()
			id := e.create(req)
			if !s.arm() {
				return
			}
			_ = e.p.Delete(e.ctx, id) // however it ends: what counts is the repetition
			s.disarm()
			p := e.p
			if e.h.Build != nil {
				if next, ok := e.restarted("R2.4.17"); ok {
					p = next
				}
			}
			err := e.remove(p, id)
			e.must("R2.4.17", err == nil, "%s: Delete does not succeed when it is repeated: %v", s.at(), err)
			e.mustBeNone("R2.4.17", req.Name, s.at())
		})
	}
}
