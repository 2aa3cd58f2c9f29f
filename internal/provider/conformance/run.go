package conformance

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// T is the part of *testing.T that Run needs.
type T[Self any] interface {
	Run(name string, f func(Self)) bool
	Name() string
	Context() context.Context
	Helper()
	Log(args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// Run tries a provider: a sub-test for each case, and below it one for each of its rules, named after the
// rule's id, so that -run 'TestX/get_.*' chooses. A rule that does not apply, or that the harness cannot show, is
// skipped with the reason. The table is logged in the end.
func Run[Self T[Self]](t Self, newHarness NewHarness, options ...Option) {
	t.Helper()
	p := newProof(newHarness, append([]Option{Title(t.Name())}, options...))
	for _, def := range p.cases() {
		t.Run(strings.ReplaceAll(def.Name, " ", "_"), func(t Self) {
			results, err := p.run(t.Context(), def)
			if err != nil {
				t.Fatalf("%v", err)
			}
			for _, r := range results {
				t.Run(r.Rule, func(t Self) { tell(t, r) })
			}
		})
	}
	report := p.report()
	for _, left := range report.Left {
		t.Errorf("the suite could not remove what it made: %s", left)
	}
	var table strings.Builder
	if err := report.WriteTable(&table); err != nil {
		t.Errorf("print the table: %v", err)
	}
	t.Log("\n" + table.String())
	if path := p.reportPath(t.Name()); path != "" {
		if err := writeReport(path, report); err != nil {
			t.Errorf("write the report: %v", err)
		}
	}
}

// tell ends a rule's sub-test as its result says.
func tell[Self T[Self]](t Self, r Result) {
	t.Helper()
	notes := strings.Join(r.Notes, "\n")
	switch r.Outcome {
	case Failed, Blocked:
		rule, _ := ruleByID(r.Rule)
		t.Errorf("%s: %s\n%s\n%s", r.Rule, r.Outcome, rule.Text, notes)
	case NotApplicable, NotShown:
		t.Skipf("%s: %s", r.Outcome, notes)
	case Partly:
		t.Log(string(r.Outcome) + ": " + notes)
	case Passed:
	}
}

// EnvJSON names the directory that reports are written to, one file for each test that calls Run.
const EnvJSON = "CONFORMANCE_JSON"

func (p *proof) reportPath(test string) string {
	if p.jsonPath != "" {
		return p.jsonPath
	}
	dir := os.Getenv(EnvJSON)
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(test, "_")+".json")
}

func writeReport(path string, r Report) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := r.WriteJSON(f); err != nil {
		_ = f.Close() // the first error counts
		return err
	}
	return f.Close()
}
