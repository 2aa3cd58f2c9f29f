package main

import (
	"strings"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/conformance"
)

const small = "- **[R2.1.1]** A method MUST work.\n" +
	"- **[R2.1.2]** A method MAY do more.\n" +
	"- **[R4.1.1]** A mark MUST hold.\n" +
	"- **[R8.1.1]** (`quota` detected) An error MUST be typed.\n" +
	"| 4.4 | `quota` | `detected`, `none` |\n"

func TestCompare(t *testing.T) {
	codes := map[string][]string{"quota": {"detected", "none"}}
	whole := []conformance.Case{{Name: "works", Rules: []string{"R2.1.1"}}, {Name: "typed", Rules: []string{"R8.1.1"}}}
	tests := map[string]struct {
		reason string
		cases  []conformance.Case
		axes   map[string][]string
		want   string
	}{
		"whole":          {reason: "each MUST of sections 2 and 8 has a case", cases: whole, axes: codes},
		"no case":        {reason: "a rule without a case is unproved", cases: whole[:1], axes: codes, want: "R8.1.1 has no case"},
		"cites no rule":  {reason: "a case proves something", cases: append(whole, conformance.Case{Name: "idle"}), axes: codes, want: `"idle" cites no rule`},
		"cites a MAY":    {reason: "a MAY cannot be broken", cases: append(whole, conformance.Case{Name: "more", Rules: []string{"R2.1.2"}}), axes: codes, want: "R2.1.2, which is no MUST"},
		"cites nothing":  {reason: "a rule that is gone is no rule", cases: append(whole, conformance.Case{Name: "old", Rules: []string{"R2.9.9"}}), axes: codes, want: "R2.9.9, which is no MUST"},
		"same name":      {reason: "sub-tests are told apart by name", cases: append(whole, whole[0]), axes: codes, want: "two cases have the name"},
		"codes differ":   {reason: "codes choose the rules", cases: whole, axes: map[string][]string{"quota": {"none"}}, want: "axis quota"},
		"axis not known": {reason: "an axis that the contract lacks chooses nothing", cases: whole, axes: map[string][]string{"quota": {"detected", "none"}, "colour": {"red"}}, want: "an axis colour"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := read(small)
			got := strings.Join(c.compare(c.rules, tc.cases, tc.axes), "\n")
			if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

func TestCompare_staleCopy(t *testing.T) {
	c := read(small)
	got := strings.Join(c.compare(c.rules[:1], nil, c.axes), "\n")
	if !strings.Contains(got, "--write") {
		t.Errorf("a stale copy of the rules is not told: %q", got)
	}
}
