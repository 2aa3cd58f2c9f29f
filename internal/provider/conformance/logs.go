package conformance

import (
	"regexp"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

var logCases = []Case{
	{Name: "what is logged", Safe: true, Rules: []string{"R8.4.1", "R8.4.2", "R8.4.3", "R8.4.4"}, try: logged},
	{Name: "where it is logged", Safe: true, Rules: []string{"R8.4.5"}, try: loggedWhere},
}

// everyMethod calls each method, well and badly, and gives the number of calls.
func (e *exam) everyMethod(p *subject, req provider.CreateRequest) int {
	id, err := p.Create(e.ctx, req)
	e.need(err == nil, "create: %v", err)
	_, err = p.Get(e.ctx, id)
	e.need(err == nil, "get: %v", err)
	_, err = p.ListByTag(e.ctx)
	e.need(err == nil, "list: %v", err)
	_, _ = p.Get(ended(e.ctx), id)
	e.need(p.Delete(e.ctx, id) == nil || e.h.Axes["delete-return"] == "resumed", "delete failed")
	_, _ = p.Get(e.ctx, id)
	const calls = 6
	return calls
}

func logged(e *exam) {
	e.everyMethod(e.p, e.request()) // what is said once for each host is said here (R8.4.6)
	from := e.seen.linesSoFar()
	callsFrom := 0
	if e.h.Faults != nil {
		callsFrom = len(e.h.Faults.Calls())
	}
	req := e.request()
	methods := e.everyMethod(e.p, req)
	lines := e.seen.linesFrom(from)
	atV1, detail := 0, false
	for _, l := range lines {
		e.must("R8.4.1", l.level > 0, "a method wrote at V(0): %s", l.text)
		if l.level == 1 {
			atV1++
		}
		detail = detail || (l.level >= 2 && strings.Contains(l.text, req.Name))
	}
	e.must("R8.4.1", true, "")
	e.must("R8.4.4", atV1 == methods, "%d methods wrote %d lines at V(1), want one each", methods, atV1)
	e.must("R8.4.3", detail, "no line at V(2) has the arguments of a backend call: none names the instance")
	if e.h.Faults == nil {
		e.lacks("count of backend calls", "R8.4.2")
		return
	}
	made := map[Call]int{}
	for _, c := range e.h.Faults.Calls()[callsFrom:] {
		made[Call{Host: c.Host, Name: c.Name}]++
	}
	for call, n := range made {
		word := regexp.MustCompile(`\b` + regexp.QuoteMeta(call.Name) + `\b`)
		got := 0
		for _, l := range lines {
			if l.level != 1 || !word.MatchString(l.text) || !strings.Contains(l.text, call.Host) {
				continue
			}
			got++
			whole := strings.Contains(l.text, "duration") && strings.Contains(l.text, "outcome")
			e.must("R8.4.2", whole, "the line of a backend call has no duration or no outcome: %s", l.text)
			e.must("R8.4.3", !strings.Contains(l.text, req.Name), "the line at V(1) of a backend call has its arguments: %s", l.text)
		}
		e.must("R8.4.2", got == n, "%d calls %s to %s wrote %d lines at V(1), want one each", n, call.Name, call.Host, got)
	}
}

func loggedWhere(e *exam) {
	from := e.seen.linesSoFar()
	e.everyMethod(e.p, e.request())
	with := e.seen.linesFrom(from)
	from = e.seen.linesSoFar()
	e.everyMethod(e.p.bareLog(), e.request())
	without := e.seen.linesFrom(from)
	for _, l := range with {
		e.must("R8.4.5", !l.fallback, "a line went past the context's logger: %s", l.text)
	}
	e.must("R8.4.5", len(with) > 0, "nothing was logged to the context's logger")
	e.must("R8.4.5", len(without) > 0, "nothing was logged to the logger of provider.Options where the context has none")
}
