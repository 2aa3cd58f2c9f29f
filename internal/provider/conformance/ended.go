package conformance

import (
	"context"
	"errors"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

var contextCases = []Case{
	{Name: "a context that has ended before", Safe: true, Rules: []string{"R2.1.2", "R2.1.3", "R2.1.4"}, try: endedBefore},
	{Name: "a context that ends during a call", Rules: []string{"R2.1.2", "R2.1.4"}, try: endedDuring},
	{Name: "a deadline that passes during a call", Rules: []string{"R2.1.2", "R2.1.4"}, try: deadlineDuring},
	{Name: "a context that ends after a call", Safe: true, Rules: []string{"R2.2.8"}, try: endedAfter},
}

// within is how long a method may go on after the end of its context (R2.1.2).
const within = time.Second

// method is one of the four, as a call on one instance.
type method struct {
	name string
	call func(context.Context, *subject, provider.CreateRequest, string) error
}

var methods = []method{
	{"Create", func(ctx context.Context, p *subject, req provider.CreateRequest, _ string) error {
		_, err := p.Create(ctx, req)
		return err
	}},
	{"Get", func(ctx context.Context, p *subject, _ provider.CreateRequest, id string) error {
		_, err := p.Get(ctx, id)
		return err
	}},
	{"Delete", func(ctx context.Context, p *subject, _ provider.CreateRequest, id string) error {
		return p.Delete(ctx, id)
	}},
	{"ListByTag", func(ctx context.Context, p *subject, _ provider.CreateRequest, _ string) error {
		_, err := p.ListByTag(ctx)
		return err
	}},
}

// prompt measures how long something goes on after an end that it tells of, which must be within a second. A
// machine may be late once: the best of three counts.
func (e *exam) prompt(rule, text string, took func() time.Duration) {
	var best time.Duration
	for n := range 3 {
		if took := took(); n == 0 || took < best {
			best = took
		}
		if best <= within {
			break
		}
	}
	e.must(rule, best <= within, "%s took %v, want one second at most", text, best.Round(time.Millisecond))
}

func endedBefore(e *exam) {
	id := e.create(e.request())
	fresh := e.request()
	for _, m := range methods {
		var err error
		e.unchanged("R2.1.3", m.name+" with a context that has ended", func() {
			e.prompt("R2.1.2", m.name+" with a context that has ended", func() time.Duration {
				begin := time.Now()
				err = m.call(ended(e.ctx), e.p, fresh, id)
				return time.Since(begin)
			})
		})
		e.gaveUp(err, context.Canceled, m.name+" with a context that has ended")
	}
	// What an independent look is not there to say, Get says.
	_, err := e.p.Get(e.ctx, id)
	e.must("R2.1.3", err == nil, "Get after a Delete with a context that had ended: %v", err)
}

// gaveUp tries the error of a method that gave up.
func (e *exam) gaveUp(err, cause error, text string) {
	e.must("R2.1.4", errors.Is(err, provider.ErrTransient) && errors.Is(err, cause), "%s gives %v, want Transient and %v", text, err, cause)
}

// endedDuring lets each call of each method hang and ends the context then.
func endedDuring(e *exam) {
	for _, m := range methods {
		hang := func(n int) []Fault { return []Fault{{Kind: Hanging, First: n, Count: 1}} }
		e.everyCall(hang, e.def.Rules, func(s *sweep) {
			req := e.request()
			id := ""
			if m.name != "Create" {
				id = e.create(req)
			}
			begin, ok := e.giveUpAt(s, m, req, id)
			if !ok {
				return
			}
			if _, hit := s.hit(); hit && begin > within {
				e.prompt("R2.1.2", s.at()+": "+m.name+" after the end of its context", func() time.Duration {
					again := &sweep{e: e, faults: hang(s.nth), nth: s.nth}
					took, _ := e.giveUpAt(again, m, req, id)
					return took
				})
			} else if hit {
				e.must("R2.1.2", true, "")
			}
			e.discard(req)
		})
	}
}

// giveUpAt runs a method, ends its context when it comes to the sweep's call, and says how long it went on.
func (e *exam) giveUpAt(s *sweep, m method, req provider.CreateRequest, id string) (took time.Duration, ok bool) {
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	end := make(chan time.Time, 1)
	s.faults[0].Do = func(Call) {
		end <- time.Now()
		cancel()
	}
	if !s.arm() {
		return 0, false
	}
	err := m.call(ctx, e.p, req, id)
	select {
	case begin := <-end:
		took = time.Since(begin)
	default: // that many calls were not made
		s.disarm()
		return 0, true
	}
	s.disarm()
	if err != nil {
		e.gaveUp(err, context.Canceled, s.at()+": "+m.name+" whose context ended")
	}
	return took, true
}

func deadlineDuring(e *exam) {
	const soon = 50 * time.Millisecond
	for _, m := range methods {
		req := e.request()
		id := e.create(e.request())
		ok := e.under([]Fault{{Kind: Hanging, First: 1}}, e.def.Rules, func() {
			var err error
			e.prompt("R2.1.2", m.name+" after its deadline", func() time.Duration {
				ctx, cancel := context.WithTimeout(e.ctx, soon)
				defer cancel()
				begin := time.Now()
				err = m.call(ctx, e.p, req, id)
				return time.Since(begin) - soon
			})
			e.gaveUp(err, context.DeadlineExceeded, m.name+" whose deadline passed")
		})
		if !ok {
			return
		}
	}
}

// endedAfter: what a call has made does not hang on its context.
func endedAfter(e *exam) {
	ctx, cancel := context.WithCancel(e.ctx)
	id, err := e.p.Create(ctx, e.request())
	cancel()
	e.need(err == nil, "create: %v", err)
	_, err = e.p.Get(e.ctx, id)
	e.must("R2.2.8", err == nil, "Get after the end of the context of Create: %v", err)
}
