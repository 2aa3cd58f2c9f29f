package conformance

var createCutCases = []Case{
	{Name: "create cut off at every call", Rules: []string{"R2.2.4"}, try: createCutOff},
	{Name: "create that loses each answer", Rules: []string{"R2.2.5"}, try: createLosesAnswers},
}

// createCutOff lets the process die before and after each backend call, and repeats in a new one.
func createCutOff(e *exam) {
	want, ok := e.measure("R2.2.4")
	if !ok {
		return
	}
	for _, way := range []func(int) []Fault{diesBefore, diesAfter, once(Strange)} {
		e.repeatedAfter(way, "R2.2.4", want)
	}
}

func createLosesAnswers(e *exam) {
	want, ok := e.measure("R2.2.5")
	if ok {
		e.repeatedAfter(once(Lost), "R2.2.5", want)
	}
}

// repeatedAfter cuts a create off in a way at each of its calls, repeats it until it succeeds, and looks.
func (e *exam) repeatedAfter(way func(int) []Fault, rule string, want shape) {
	e.everyCall(way, []string{rule}, func(s *sweep) {
		req := e.request()
		if !s.arm() {
			return
		}
		first, _ := e.p.Create(e.ctx, req) // however it ends: what counts is the repetition
		s.disarm()
		p := e.p
		if e.h.Build != nil {
			if next, ok := e.restarted(rule); ok {
				p = next
			}
		}
		id, err := e.settle(p, req)
		if !e.must(rule, err == nil, "%s: Create does not succeed when it is repeated: %v", s.at(), err) {
			return
		}
		e.must(rule, first == "" || first == id, "%s: two IDs, %q and %q", s.at(), first, id)
		e.mustBeOne(rule, req, want, s.at())
		err = e.remove(p, id)
		e.need(err == nil, "delete: %v", err)
	})
}
