package main

import (
	"regexp"
	"slices"
	"strings"
)

const contractPath = "docs/provider-contract.md"

// contract is the provider contract, taken apart.
type contract struct {
	doc   document
	rules []rule
	axes  map[string][]string // codes by axis, as section 4.20 lists them
	rows  []tableRow          // of section 11: the required tests
}

// rule is one numbered rule: "- **[R2.2.9]** (`create-return` blocking) Create MUST ...".
type rule struct {
	id        string
	line      int
	condition string
	text      string
	words     []string // the RFC 2119 words in it
}

var (
	ruleLine = regexp.MustCompile(`^- \*\*\[R([^\]]*)\]\*\* (?:\(([^)]*)\) )?(.*)$`)
	ruleID   = regexp.MustCompile(`^[0-9]+(\.[0-9]+)+$`)
	rfcWord  = regexp.MustCompile(`\b(MUST|SHALL|SHOULD|MAY|REQUIRED|OPTIONAL)\b`)
	heading  = regexp.MustCompile(`^#+ ([0-9]+(?:\.[0-9]+)?)[ .]`)
	citation = regexp.MustCompile(`\bR[0-9]+\.[0-9]+(?:\.[0-9]+)*\b`)
)

// interfaces are the optional ones that a rule's condition can name.
var interfaces = []string{"Checker", "Identifier", "Watcher", "Renderer", "Closer", "Guarder",
	"ImageKeeper", "Consoler", "GuestReporter", "Diagnoser", "Preconfigured"}

func readContract(doc document) contract {
	c := contract{doc: doc, axes: map[string][]string{}, rows: doc.rowsUnder("row")}
	for _, r := range doc.rowsUnder("section") {
		c.axes[strings.Join(r.codes[1], " ")] = r.codes[2]
	}
	for i, line := range doc.lines {
		if m := ruleLine.FindStringSubmatch(line); m != nil {
			c.rules = append(c.rules, rule{m[1], i + 1, m[2], m[3], rfcWord.FindAllString(m[3], -1)})
		}
	}
	return c
}

func (c contract) has(id string) bool {
	return slices.ContainsFunc(c.rules, func(r rule) bool { return r.id == id })
}

// checkContract checks the contract by itself: ids, words, conditions, and that a required test stands
// for every MUST of sections 2 and 8.
func checkContract(p project) []problem {
	c, doc := p.contract, p.contract.doc
	if len(c.rules) == 0 {
		return []problem{problemf(contractPath, 1, "the provider contract is missing")}
	}
	problems := checkRuleIDs(c)
	for _, r := range c.rules {
		if len(r.words) != 1 {
			problems = append(problems, problemf(doc.path, r.line, "rule R%s needs exactly one word of RFC 2119, has %d", r.id, len(r.words)))
		}
		if !c.knowsCondition(r.condition) {
			problems = append(problems, problemf(doc.path, r.line, "rule R%s: (%s) is neither an axis with its codes nor an optional interface", r.id, r.condition))
		}
		needsTest := strings.HasPrefix(r.id, "2.") || strings.HasPrefix(r.id, "8.")
		if needsTest && slices.Contains(r.words, "MUST") && !c.tested(r.id) {
			problems = append(problems, problemf(doc.path, r.line, "rule R%s stands in no row of section 11", r.id))
		}
	}
	return problems
}

// checkRuleIDs: each id once, of the right form, in the section that it begins with.
func checkRuleIDs(c contract) []problem {
	var problems []problem
	section, seen := "", map[string]bool{}
	byLine := map[int]rule{}
	for _, r := range c.rules {
		byLine[r.line] = r
	}
	for i, line := range c.doc.lines {
		if m := heading.FindStringSubmatch(line); m != nil {
			section = m[1]
		}
		r, ok := byLine[i+1]
		if !ok {
			continue
		}
		switch {
		case !ruleID.MatchString(r.id) || !strings.HasPrefix(r.id, section+"."):
			problems = append(problems, problemf(c.doc.path, r.line, "rule id R%s does not fit section %s", r.id, section))
		case seen[r.id]:
			problems = append(problems, problemf(c.doc.path, r.line, "rule id R%s stands twice", r.id))
		}
		seen[r.id] = true
	}
	return problems
}

// knowsCondition: empty, an optional interface, or an axis followed by some of its codes.
func (c contract) knowsCondition(condition string) bool {
	if condition == "" {
		return true
	}
	name, codes, _ := strings.Cut(strings.TrimPrefix(condition, "`"), "`")
	if slices.Contains(interfaces, name) {
		return codes == ""
	}
	known, ok := c.axes[name]
	if !ok {
		return false
	}
	for _, code := range strings.Split(codes, ",") {
		if !slices.Contains(known, strings.TrimSpace(code)) {
			return false
		}
	}
	return true
}

// tested reports whether a row of section 11 names the rule.
func (c contract) tested(id string) bool {
	return slices.ContainsFunc(c.rows, func(r tableRow) bool {
		return slices.Contains(citation.FindAllString(r.texts[len(r.texts)-1], -1), "R"+id)
	})
}
