package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Outcome of a rule.
type Outcome string

// The outcomes, from the one that counts most.
const (
	// Failed: the provider broke the rule.
	Failed Outcome = "failed"
	// Blocked: the case ended before the rule could be tried, because a step that it needs failed.
	Blocked Outcome = "blocked"
	// Partly: what could be tried passed, and the harness lacks something to try the rest.
	Partly Outcome = "passed in part"
	// Passed: everything that the suite tries passed.
	Passed Outcome = "passed"
	// NotShown: the harness lacks what the rule is tried with.
	NotShown Outcome = "not shown"
	// NotApplicable: the rule's condition does not hold for the provider.
	NotApplicable Outcome = "not applicable"
)

// Result is how one rule went, in one case or in all.
type Result struct {
	Rule    string  `json:"rule"`
	Outcome Outcome `json:"outcome"`
	// Cases that tried it.
	Cases []string `json:"cases,omitempty"`
	// Notes say what failed, what is lacking, or which condition does not hold.
	Notes []string `json:"notes,omitempty"`
}

// Report is how a provider did.
type Report struct {
	// Provider says what was tried, for people.
	Provider string    `json:"provider"`
	Date     time.Time `json:"date"`
	// Interrupted says that not every case ran.
	Interrupted bool `json:"interrupted"`
	// Made is how many instances were asked for.
	Made int `json:"made"`
	// Left is what the suite made and could not remove.
	Left []string `json:"left,omitempty"`
	// Results of all rules, in the contract's order.
	Results []Result `json:"results"`
}

// Green reports whether nothing failed, was blocked, or did not run.
func (r Report) Green() bool {
	return !r.Interrupted && len(r.Left) == 0 && len(r.With(Failed)) == 0 && len(r.With(Blocked)) == 0
}

// With gives the ids of the rules of an outcome.
func (r Report) With(outcome Outcome) []string {
	out := []string{}
	for _, result := range r.Results {
		if result.Outcome == outcome {
			out = append(out, result.Rule)
		}
	}
	return out
}

// Summary counts the outcomes in one line.
func (r Report) Summary() string {
	var parts []string
	for _, outcome := range []Outcome{Passed, Partly, NotApplicable, NotShown, Failed, Blocked} {
		if n := len(r.With(outcome)); n > 0 || outcome == Passed || outcome == Failed {
			parts = append(parts, fmt.Sprintf("%d %s", n, outcome))
		}
	}
	return strings.Join(parts, ", ")
}

// WriteTable prints the report rule by rule.
func (r Report) WriteTable(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var lines strings.Builder
	lines.WriteString("RULE\tOUTCOME\tNOTES\n")
	for _, result := range r.Results {
		fmt.Fprintf(&lines, "%s\t%s\t%s\n", result.Rule, result.Outcome, strings.Join(result.Notes, "; "))
	}
	if _, err := io.WriteString(table, lines.String()); err != nil {
		return err
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s: %s\n", r.Provider, r.Summary())
	return err
}

// WriteJSON prints the report for programs.
func (r Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// merge puts the cases' results of one rule together.
func merge(rule string, parts []Result) Result {
	out := Result{Rule: rule, Outcome: NotShown}
	count := map[Outcome]int{}
	for _, part := range parts {
		count[part.Outcome]++
		out.Cases = append(out.Cases, part.Cases...)
		for _, note := range part.Notes {
			if !slices.Contains(out.Notes, note) {
				out.Notes = append(out.Notes, note)
			}
		}
	}
	for _, outcome := range []Outcome{Failed, Blocked, Partly, Passed, NotShown, NotApplicable} {
		if count[outcome] > 0 {
			out.Outcome = outcome
			break
		}
	}
	if out.Outcome == Passed && count[NotShown] > 0 {
		out.Outcome = Partly
	}
	return out
}
