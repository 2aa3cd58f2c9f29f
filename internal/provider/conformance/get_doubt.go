package conformance

import (
	"errors"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

var getDoubtCases = []Case{
	{
		Name: "get whose backend does not answer well", Rules: []string{"R2.3.3", "R2.3.4", "R2.3.15", "R8.1.5", "R8.1.6", "R8.1.11"},
		try: getInDoubt,
	},
	{Name: "get on a host that cannot be reached", Rules: []string{"R2.3.3", "R2.3.4", "R8.1.6", "R8.1.11"}, try: getUnreachable},
	{Name: "get during delete", Rules: []string{"R2.3.5"}, try: getDuringDelete},
}

// getInDoubt lets each call of a Get go wrong in each way that proves nothing.
func getInDoubt(e *exam) {
	req := e.request()
	id := e.create(req)
	for kind, rules := range map[FaultKind][]string{
		Busy:    {"R2.3.4"},
		Garbled: {"R2.3.4"},
		Strange: {"R2.3.4", "R8.1.5"},
		Dropped: {"R2.3.4", "R8.1.6"},
		Lost:    {"R2.3.4", "R8.1.6"},
		Late:    {"R2.3.4", "R8.1.6"},
	} {
		e.everyCall(once(kind), append([]string{"R2.3.3", "R8.1.11"}, rules...), func(s *sweep) {
			if !s.arm() {
				return
			}
			inst, err := e.p.Get(e.ctx, id)
			s.disarm()
			call, hit := s.hit()
			if !hit {
				return
			}
			e.must("R2.3.3", !errors.Is(err, provider.ErrNotFound), "%s: Get gives NotFound of an instance that stands: %v", s.at(), err)
			answered := kind == Busy || kind == Garbled || kind == Strange
			if call.Kind == Address && answered {
				e.must("R2.3.15", err == nil && inst.UID == req.UID, "%s: Get of an instance whose address cannot be found out: %v, want the instance", s.at(), err)
			}
			if err == nil {
				return // it asked again
			}
			for _, rule := range rules {
				e.must(rule, errors.Is(err, provider.ErrTransient), "%s: Get gives %v, want Transient", s.at(), err)
			}
			e.must("R8.1.11", strings.Contains(err.Error(), call.Host), "%s: the error %q does not name the host %s", s.at(), err, call.Host)
		})
	}
}

func getUnreachable(e *exam) {
	req := e.request()
	id := e.create(req)
	ways := map[string]*subject{"a provider that has worked before": e.p}
	if e.h.Build != nil {
		if next, ok := e.restarted("R2.3.4"); ok {
			ways["a provider that was just built"] = next
		}
	}
	for who, p := range ways {
		ok := e.under([]Fault{{Kind: Unreachable, Host: req.Placement.Zone, First: 1}}, e.def.Rules, func() {
			_, err := p.Get(e.ctx, id)
			what := "Get by " + who + " on a host that cannot be reached"
			e.must("R2.3.3", !errors.Is(err, provider.ErrNotFound), "%s: %v", what, err)
			e.mustBe("R2.3.4", err, provider.ErrTransient, "", what)
			e.mustBe("R8.1.6", err, provider.ErrTransient, "", what)
			e.must("R8.1.11", err != nil && strings.Contains(err.Error(), req.Placement.Zone), "%s: the error %v does not name the host %s", what, err, req.Placement.Zone)
		})
		if !ok {
			return
		}
		// A connection that died meanwhile is found out by the call that uses it.
		_, err := p.Get(e.ctx, id)
		for tries := 1; tries < 3 && errors.Is(err, provider.ErrTransient); tries++ {
			_, err = p.Get(e.ctx, id)
		}
		e.must("R2.3.4", err == nil, "Get by %s after the host came back, three times: %v", who, err)
	}
}

// getDuringDelete asks before each backend call of a Delete, and compares with what stands there.
func getDuringDelete(e *exam) {
	req := e.request()
	id := e.create(req)
	if e.h.Look == nil {
		e.lacks("independent look", "R2.3.5")
		return
	}
	stands := func() bool {
		found, err := e.h.Look(e.ctx)
		return err == nil && len(things(found).of(req.Name).instances()) == 1
	}
	asking := false // the calls of Get itself are not asked about
	e.under([]Fault{{Kind: Nothing, First: 1, Do: func(c Call) {
		if asking || !stands() {
			return
		}
		asking = true
		_, err := e.p.Get(e.ctx, id)
		asking = false
		e.must("R2.3.5", err == nil, "Get during Delete, before %s, of an instance that stands: %v", c.Name, err)
	}}}, []string{"R2.3.5"}, func() {
		err := e.remove(e.p, id)
		e.need(err == nil, "delete: %v", err)
	})
}
