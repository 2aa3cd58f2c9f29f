package conformance

import (
	"strings"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

var spanCases = []Case{
	{Name: "the spans of calls", Safe: true, Rules: []string{"R8.5.1", "R8.5.2", "R8.5.4", "R8.5.5"}, try: spansOfCalls},
	{Name: "the span of a call that failed", Rules: []string{"R8.5.3"}, try: spanOfFailure},
}

// spansOfCalls compares the spans of every method with the backend calls that it made.
func spansOfCalls(e *exam) {
	e.everyMethod(e.p, e.request()) // connections are made here
	from, callsFrom := e.seen.spans.soFar(), 0
	if e.h.Faults != nil {
		callsFrom = len(e.h.Faults.Calls())
	}
	e.everyMethod(e.p, e.request())
	spans, open := e.seen.spans.from(from)
	e.must("R8.5.5", len(open) == 0, "spans have not ended when their methods had returned: %q", open)
	count := map[string]int{}
	for _, s := range spans {
		count[s.Name()]++
		e.must("R8.5.4", !strings.HasPrefix(s.Name(), "provider."), "the provider opened a span %s", s.Name())
	}
	e.must("R8.5.4", true, "")
	if e.h.Faults == nil {
		e.lacks("count of backend calls", "R8.5.1", "R8.5.2")
		return
	}
	made := map[string]int{}
	for _, c := range e.h.Faults.Calls()[callsFrom:] {
		made[c.Name]++
	}
	below := belowOurs(e.seen.spans, from)
	for name, n := range made {
		total := 0
		for span, k := range count {
			if span == name || strings.HasSuffix(span, "."+name) {
				total += k
			}
		}
		e.must("R8.5.1", total == n, "%d calls %s opened %d spans, want one each", n, name, total)
		if total == n {
			e.must("R8.5.2", count[e.h.Type+"."+name] == n, "the spans of the call %s are not named %s.%s", name, e.h.Type, name)
		}
	}
	for _, s := range spans {
		e.must("R8.5.1", below[s.SpanContext().SpanID()], "the span %s is not a descendant of the one in the method's context", s.Name())
	}
}

// belowOurs gives the spans from the nth on that descend from one of the suite's.
func belowOurs(l *spanLog, from int) map[trace.SpanID]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	below := map[trace.SpanID]bool{}
	for _, s := range l.started[from:] { // parents start first
		below[s.SpanContext().SpanID()] = strings.HasPrefix(s.Name(), spanPrefix) || below[s.Parent().SpanID()]
	}
	return below
}

func spanOfFailure(e *exam) {
	id := e.create(e.request())
	e.everyCall(once(Strange), []string{"R8.5.3"}, func(s *sweep) {
		from := e.seen.spans.soFar()
		if !s.arm() {
			return
		}
		_, _ = e.p.Get(e.ctx, id) // the span tells
		s.disarm()
		call, hit := s.hit()
		if !hit {
			return
		}
		spans, _ := e.seen.spans.from(from)
		failed := func(x sdktrace.ReadOnlySpan) bool { return x.Status().Code == codes.Error }
		found := false
		for _, x := range spans {
			found = found || (strings.HasSuffix(x.Name(), "."+call.Name) && failed(x))
		}
		e.must("R8.5.3", found, "%s: no span of the call has the status Error", s.at())
	})
}
