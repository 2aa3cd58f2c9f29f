package conformance

import (
	"context"
	"fmt"
	"regexp"
	"time"
)

// Option changes what Prove and Run do.
type Option func(*settings)

type settings struct {
	title    string
	safe     bool
	only     *regexp.Regexp
	jsonPath string
	began    func(Case)
	now      func() time.Time
}

// Title names what is tried, for the report: "kvm2 over its scripted backend".
func Title(text string) Option { return func(s *settings) { s.title = text } }

// SafeOnly leaves out every case that does more than make and remove a few instances of its own.
func SafeOnly() Option { return func(s *settings) { s.safe = true } }

// JSON writes the report to a file too. Without it, the environment variable CONFORMANCE_JSON names the
// directory for it, if it is set.
func JSON(path string) Option { return func(s *settings) { s.jsonPath = path } }

// Only leaves out the cases whose names do not match.
func Only(pattern *regexp.Regexp) Option { return func(s *settings) { s.only = pattern } }

// Progress is told of each case before it runs.
func Progress(began func(Case)) Option { return func(s *settings) { s.began = began } }

// Prove runs the cases one after the other and reports how the rules went. An error says that a harness could not be
// made, or that ctx ended; the report is of what ran until then. What the cases make is removed in any case, also
// after the end of ctx, which takes two minutes at most.
func Prove(ctx context.Context, newHarness NewHarness, options ...Option) (Report, error) {
	p := newProof(newHarness, options)
	for _, def := range p.cases() {
		if ctx.Err() != nil {
			p.interrupted = true
			return p.report(), ctx.Err()
		}
		if p.began != nil {
			p.began(def)
		}
		if _, err := p.run(ctx, def); err != nil {
			p.interrupted = true
			return p.report(), err
		}
	}
	return p.report(), nil
}

// proof is a run of the suite.
type proof struct {
	settings
	newHarness  NewHarness
	seen        *observer
	results     map[string][]Result
	interrupted bool
}

func newProof(newHarness NewHarness, options []Option) *proof {
	p := &proof{newHarness: newHarness, seen: newObserver(), results: map[string][]Result{}}
	p.now = time.Now
	for _, option := range options {
		option(&p.settings)
	}
	return p
}

// cases are those that the options leave.
func (p *proof) cases() []Case {
	var out []Case
	for _, def := range Cases() {
		if (def.Safe || !p.safe) && (p.only == nil || p.only.MatchString(def.Name)) {
			out = append(out, def)
		}
	}
	return out
}

// run tries one case on a harness of its own.
func (p *proof) run(ctx context.Context, def Case) ([]Result, error) {
	h, err := p.newHarness(ctx, Setup{Log: p.seen.fallback()})
	if err != nil {
		return nil, fmt.Errorf("make a harness for case %s: %w", def.Name, err)
	}
	if h.Close != nil {
		defer h.Close()
	}
	if problem := h.problem(); problem != "" {
		return nil, fmt.Errorf("the harness is not whole: %s", problem)
	}
	results := newExam(ctx, def, h, p.seen).run() //nolint:contextcheck // it was given ctx
	for _, r := range results {
		p.results[r.Rule] = append(p.results[r.Rule], r)
	}
	return results, nil
}

// problem says what the harness lacks that it must have, or "".
func (h *Harness) problem() string {
	switch {
	case h.Provider == nil:
		return "Provider is nil"
	case h.Name == "" || h.Type == "" || h.Owner == "":
		return "Name, Type and Owner must be set"
	case len(h.Zones) == 0:
		return "Zones is empty"
	case h.Request == nil:
		return "Request is nil"
	}
	return h.Axes.problem()
}

// report puts the results of all cases together.
func (p *proof) report() Report {
	r := Report{Provider: p.title, Date: p.now().UTC().Truncate(time.Second), Interrupted: p.interrupted, Made: p.seen.instances(), Left: p.seen.leftovers()}
	for _, rule := range rules {
		merged := merge(rule.ID, p.results[rule.ID])
		if len(p.results[rule.ID]) == 0 {
			merged.Notes = []string{p.why()}
		}
		r.Results = append(r.Results, merged)
	}
	return r
}

// why says why no case of a rule ran.
func (p *proof) why() string {
	switch {
	case p.interrupted:
		return "interrupted before"
	case p.safe:
		return "its case is not safe on a host in use"
	}
	return "its case was not chosen"
}
