package conformance

import (
	"errors"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

var deleteForeignCases = []Case{
	{Name: "delete of what has no mark", Rules: []string{"R2.4.6", "R2.1.7"}, try: deleteUnmarked},
	{Name: "delete of another owner's instance", Rules: []string{"R2.4.7", "R2.1.7"}, try: deleteForeign},
	{Name: "delete of what stops being ours", Rules: []string{"R2.4.8"}, try: deleteLostMeanwhile},
}

func deleteUnmarked(e *exam) { e.deletePlanted("R2.4.6", nil, "something without a mark") }

func deleteForeign(e *exam) { e.deletePlanted("R2.4.7", foreignMark(), "another owner's instance") }

func (e *exam) deletePlanted(rule string, mark *Mark, what string) {
	req := e.request()
	id, ok := e.plant(req, mark, rule, "R2.1.7")
	if !ok {
		return
	}
	before, looks := e.look(rule, "R2.1.7")
	err := e.p.Delete(e.ctx, id)
	e.mustBe(rule, err, provider.ErrPermanent, provider.ReasonNotOurs, "Delete of "+what)
	if looks {
		after, _ := e.look(rule, "R2.1.7")
		same := before.of(req.Name).detail() == after.of(req.Name).detail()
		for _, r := range []string{rule, "R2.1.7"} {
			e.must(r, same, "Delete changed %s from\n%s\nto\n%s", what, before.of(req.Name).detail(), after.of(req.Name).detail())
		}
	}
}

// deleteLostMeanwhile gives the instance to another owner before each backend call of a Delete. The call itself may
// be one that destroys: between a look and a step there is always a moment. No later one may be, as long as the
// instance stands.
func deleteLostMeanwhile(e *exam) {
	if e.h.SetMark == nil {
		e.lacks("way to change a mark", "R2.4.8")
		return
	}
	twice := func(n int) []Fault {
		return []Fault{{Kind: Nothing, First: n, Count: 1}, {Kind: Nothing, First: n + 1, Count: 1}}
	}
	e.everyCall(twice, []string{"R2.4.8"}, func(s *sweep) {
		req := e.request()
		id := e.create(req)
		inst, err := e.p.Get(e.ctx, id)
		e.need(err == nil, "get: %v", err)
		var given, stands error
		ours := &Mark{Owner: e.h.Owner, UID: req.UID, Ref: req.Ref, CreatedAt: inst.CreatedAt}
		foreign := *ours
		foreign.Owner = otherOwner
		s.faults[0].Do = func(Call) { given = e.h.SetMark(e.ctx, id, &foreign) }
		s.faults[1].Do = func(Call) { stands = e.h.SetMark(e.ctx, id, &foreign) }
		if !s.arm() {
			return
		}
		err = e.p.Delete(e.ctx, id)
		s.disarm()
		if _, hit := s.hit(); !hit {
			return
		}
		if errors.Is(given, errors.ErrUnsupported) {
			e.lacks("way to change a mark", "R2.4.8")
			return
		}
		if given != nil || stands != nil {
			return // it was gone already, or this very call took it away
		}
		for _, call := range s.calls[s.nth:] {
			e.must("R2.4.8", call.Kind != Change, "%s: the instance became another owner's there, and Delete went on to %s (its error: %v)", s.at(), call.Name, err)
		}
		// Back to us, so that it can be removed.
		if e.h.SetMark(e.ctx, id, ours) == nil {
			e.need(e.remove(e.p, id) == nil, "delete failed")
		}
	})
}
