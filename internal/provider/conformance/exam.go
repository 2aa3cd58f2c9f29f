package conformance

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// exam is one case under way: the harness, and what has become of the case's rules.
type exam struct {
	ctx  context.Context
	def  Case
	h    *Harness
	seen *observer
	p    *subject

	mu    sync.Mutex
	rules map[string]*trial
	made  []provider.CreateRequest
	ids   map[string]bool
}

// trial is one rule in one case.
type trial struct {
	tried    int
	failures []string
	lacks    []string
	not      string // why it does not apply
}

// stop ends a case early; why says which step of the set-up failed.
type stop struct{ why string }

func newExam(ctx context.Context, def Case, h *Harness, seen *observer) *exam {
	e := &exam{ctx: ctx, def: def, h: h, seen: seen, rules: map[string]*trial{}, ids: map[string]bool{}}
	for _, id := range def.Rules {
		rule, ok := ruleByID(id)
		if !ok {
			panic("conformance: case " + def.Name + " cites no rule: " + id)
		}
		e.rules[id] = &trial{not: rule.inapplicable(h)}
	}
	e.p = e.subject(h.Provider)
	return e
}

// run tries the case and gives its results, one for each of its rules.
func (e *exam) run() []Result {
	blocked := e.attempt()
	e.cleanUp()
	var out []Result
	for _, id := range e.def.Rules {
		out = append(out, e.rules[id].result(id, e.def.Name, blocked))
	}
	return out
}

// attempt runs the case to its end, and says why it did not come there.
func (e *exam) attempt() (blocked string) {
	if !slices.ContainsFunc(e.def.Rules, e.applies) {
		return ""
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case stop:
			blocked = r.why
		default:
			blocked = fmt.Sprintf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	e.def.try(e)
	return ""
}

func (t *trial) result(id, name, blocked string) Result {
	r := Result{Rule: id, Cases: []string{name}}
	switch {
	case t.not != "":
		r.Outcome, r.Notes, r.Cases = NotApplicable, []string{t.not}, nil
	case len(t.failures) > 0:
		r.Outcome, r.Notes = Failed, t.failures
	case blocked != "":
		r.Outcome, r.Notes = Blocked, []string{name + ": " + blocked}
	case t.tried > 0 && len(t.lacks) > 0:
		r.Outcome, r.Notes = Partly, t.lacks
	case t.tried > 0:
		r.Outcome = Passed
	case len(t.lacks) > 0:
		r.Outcome, r.Notes, r.Cases = NotShown, t.lacks, nil
	default:
		r.Outcome, r.Notes = NotShown, []string{name + ": it did not come up"}
	}
	return r
}

// applies reports whether a rule of the case holds for the provider.
func (e *exam) applies(rule string) bool { return e.rules[rule] != nil && e.rules[rule].not == "" }

// maxFailures is how many failures of one rule in one case are told.
const maxFailures = 3

// must tries a rule: ok, or the rule is broken in the way that the text says.
func (e *exam) must(rule string, ok bool, format string, args ...any) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.rules[rule]
	if t == nil {
		panic("conformance: case " + e.def.Name + " does not name rule " + rule)
	}
	t.tried++
	if !ok && len(t.failures) < maxFailures {
		t.failures = append(t.failures, e.seen.withoutSecrets(fmt.Sprintf(format, args...)))
	}
	return ok
}

// lacks says that rules cannot be shown, because the harness does not have what.
func (e *exam) lacks(what string, rules ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	note := "harness has no " + what
	for _, rule := range rules {
		t := e.rules[rule]
		if t == nil {
			panic("conformance: case " + e.def.Name + " does not name rule " + rule)
		}
		if !slices.Contains(t.lacks, note) {
			t.lacks = append(t.lacks, note)
		}
	}
}

// need ends the case where a step that everything else in it rests on fails.
func (e *exam) need(ok bool, format string, args ...any) {
	if !ok {
		panic(stop{e.seen.withoutSecrets(fmt.Sprintf(format, args...))})
	}
}

// done does something with the backend. It reports false where the harness cannot, after noting it for the
// rules; any other error ends the case.
func (e *exam) done(err error, what string, rules ...string) bool {
	if errors.Is(err, errors.ErrUnsupported) {
		e.lacks(what, rules...)
		return false
	}
	e.need(err == nil, "%s: %v", what, err)
	return true
}

// patience is how long a call may take that nothing holds up.
func (e *exam) patience() time.Duration {
	if e.h.Patience > 0 {
		return e.h.Patience
	}
	const usual = 30 * time.Second
	return usual
}

// request builds one for an instance of its own, with a user-data that is recognised wherever it turns up.
func (e *exam) request() provider.CreateRequest {
	req := e.h.Request()
	req.CloudInit = e.seen.userData()
	return req
}

// requestIn is request in another zone.
func (e *exam) requestIn(zone string) provider.CreateRequest {
	req := e.request()
	req.Placement.Zone = zone
	return req
}

// repeats is how often a call is repeated until it succeeds.
const repeats = 20

// create creates an instance and ends the case where that fails.
func (e *exam) create(req provider.CreateRequest) string {
	id, err := e.settle(e.p, req)
	e.need(err == nil, "create of an instance: %v", err)
	return id
}

// settle repeats a Create until it succeeds, or ends in what does not heal, as a caller does (R12.3).
func (e *exam) settle(p *subject, req provider.CreateRequest) (id string, err error) {
	for range repeats {
		if id, err = p.Create(e.ctx, req); !errors.Is(err, provider.ErrTransient) || e.ctx.Err() != nil {
			return id, err
		}
	}
	return id, err
}

// remove repeats a Delete until it succeeds, or ends in what does not heal. A NotFound is as good as nil here: that
// Delete does not give it is R2.4.15.
func (e *exam) remove(p *subject, id string) (err error) { return e.removeWith(e.ctx, p, id) }

func (e *exam) removeWith(ctx context.Context, p *subject, id string) (err error) {
	limit := time.Now().Add(e.patience())
	for n := 0; ; n++ {
		err = p.Delete(ctx, id)
		resumed := e.h.Axes["delete-return"] == "resumed" && time.Now().Before(limit)
		if errors.Is(err, provider.ErrNotFound) {
			return nil
		}
		if !errors.Is(err, provider.ErrTransient) || ctx.Err() != nil || (n >= repeats && !resumed) {
			return err
		}
		if resumed && !pause(ctx) {
			return err
		}
	}
}

// pause lets a backend work for a moment; false when ctx has ended.
func pause(ctx context.Context) bool {
	const moment = 20 * time.Millisecond
	timer := time.NewTimer(moment)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// restarted gives a provider built anew on the same backend. It reports false where the harness cannot.
func (e *exam) restarted(rules ...string) (*subject, bool) {
	return e.build(Variation{}, "restart", rules...)
}

// build gives another provider on the same backend.
func (e *exam) build(v Variation, what string, rules ...string) (*subject, bool) {
	if e.h.Build == nil {
		e.lacks(what, rules...)
		return nil, false
	}
	if v.Log.GetSink() == nil {
		v.Log = e.seen.fallback()
	}
	p, err := e.h.Build(v)
	if !e.done(err, what, rules...) {
		return nil, false
	}
	return e.subject(p), true
}

// look is an independent look. It reports false where the harness has none.
func (e *exam) look(rules ...string) (things, bool) {
	if e.h.Look == nil {
		e.lacks("independent look", rules...)
		return nil, false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), e.patience())
	defer cancel()
	found, err := e.h.Look(ctx)
	e.need(err == nil, "independent look: %v", err)
	return found, true
}

// cleanUp removes what the case has made, whatever became of it.
func (e *exam) cleanUp() {
	if e.h.Faults != nil {
		e.h.Faults.Disarm()
	}
	const limit = 2 * time.Minute
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), limit)
	defer cancel()
	e.mu.Lock()
	made, ids := e.made, e.ids
	e.mu.Unlock()
	quiet := e.quiet()
	identifier, knows := provider.As[provider.Identifier](e.h.Provider)
	for _, req := range made {
		id := ""
		if knows {
			id, _ = identifier.IDFor(req) // an error: nothing was made for it
		}
		if id != "" {
			ids[id] = true
		}
	}
	if list, err := quiet.ListByTag(ctx); err == nil {
		for _, inst := range list {
			if slices.ContainsFunc(made, func(r provider.CreateRequest) bool { return r.Name == inst.Name }) {
				ids[inst.ID] = true
			}
		}
	}
	for id := range ids {
		if err := e.removeWith(ctx, quiet, id); err != nil && !errors.Is(err, provider.ErrPermanent) {
			e.seen.leftover(id, err)
		}
	}
}

// things are what an independent look found.
type things []Thing

// of gives what belongs to an instance: itself and its secondary resources.
func (t things) of(name string) things {
	return t.where(func(one Thing) bool {
		return (one.Kind == Instance && one.Name == name) || (one.Kind == Resource && one.Of == name)
	})
}

// instances gives the instances.
func (t things) instances() things { return t.kind(Instance) }

func (t things) kind(k Kind) things { return t.where(func(one Thing) bool { return one.Kind == k }) }

func (t things) where(match func(Thing) bool) things {
	var out things
	for _, one := range t {
		if match(one) {
			out = append(out, one)
		}
	}
	return out
}

// String names the things.
func (t things) String() string {
	names := make([]string, 0, len(t))
	for _, one := range t {
		names = append(names, string(one.Kind)+" "+one.Name)
	}
	slices.Sort(names)
	return "[" + strings.Join(names, ", ") + "]"
}

// detail is everything of the things as text, so that any difference shows. Creation times are in Content too,
// where the backend has them.
func (t things) detail() string {
	lines := make([]string, 0, len(t))
	for _, one := range t {
		mark := "none"
		if one.Mark != nil {
			mark = fmt.Sprintf("%+v", *one.Mark)
		}
		lines = append(lines, fmt.Sprintf("%s %s %s of %q, mark %s, running %v, %s", one.Zone, one.Kind, one.Name, one.Of, mark, one.Running, one.Content))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
