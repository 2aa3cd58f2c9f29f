package main

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	templatePath = "docs/provider-spec-template.md"
	specSuffix   = "-provider-spec.md"
	entryCount   = 24
)

// entry is one numbered entry of the template or of a spec.
type entry struct {
	title    string // "7. Create, step by step"
	line     int
	answer   string
	evidence string
	axes     []axisChoice
}

// axisChoice is a line "Axis: `create-return` = `blocking`".
type axisChoice struct {
	line       int
	axis, code string
}

var (
	entryHeading = regexp.MustCompile(`^### ([0-9]+\. .*)$`)
	axisLine     = regexp.MustCompile("^Axis: `([a-z-]+)` = `([^`]+)`$")
	anyHeading   = regexp.MustCompile(`^#{1,3} `)
)

// readEntries takes a template or a spec apart.
func readEntries(doc document) []entry {
	var entries []entry
	var into *string // what the lines that follow belong to
	for i, line := range doc.lines {
		if anyHeading.MatchString(line) {
			into = nil
			if m := entryHeading.FindStringSubmatch(line); m != nil {
				entries = append(entries, entry{title: m[1], line: i + 1})
			}
			continue
		}
		if len(entries) == 0 {
			continue
		}
		e := &entries[len(entries)-1]
		if m := axisLine.FindStringSubmatch(line); m != nil {
			e.axes = append(e.axes, axisChoice{i + 1, m[1], m[2]})
		}
		for label, text := range map[string]*string{"Answer:": &e.answer, "Evidence:": &e.evidence} {
			if strings.HasPrefix(line, label) {
				into, line = text, strings.TrimPrefix(line, label)
			}
		}
		if into != nil {
			*into = strings.TrimSpace(*into + "\n" + line)
		}
		if strings.HasPrefix(line, "Axis:") {
			into = nil
		}
	}
	return entries
}

// checkSpecs compares the template with the contract, and every spec with both.
func checkSpecs(p project) []problem {
	doc, ok := p.documents[templatePath]
	if !ok {
		return []problem{problemf(templatePath, 1, "the spec template is missing")}
	}
	template := readEntries(doc)
	problems := checkNumbers(doc, template)
	problems = append(problems, checkAxesOnce(p.contract, doc, template)...)
	for name, spec := range p.documents {
		if path.Dir(name) == "docs" && strings.HasSuffix(name, specSuffix) {
			problems = append(problems, checkSpec(p, template, spec)...)
		}
	}
	return problems
}

func checkNumbers(doc document, entries []entry) []problem {
	if len(entries) != entryCount {
		return []problem{problemf(doc.path, 1, "%d numbered entries, want %d", len(entries), entryCount)}
	}
	return nil
}

// checkAxesOnce: every axis of the contract's 4.20 stands in exactly one entry, and no other.
func checkAxesOnce(c contract, doc document, entries []entry) []problem {
	var problems []problem
	count := map[string]int{}
	for _, e := range entries {
		for _, choice := range e.axes {
			count[choice.axis]++
			if c.axes[choice.axis] == nil {
				problems = append(problems, problemf(doc.path, choice.line, "the contract's 4.20 has no axis %s", choice.axis))
			}
		}
	}
	for _, axis := range slices.Sorted(maps.Keys(c.axes)) {
		if count[axis] != 1 {
			problems = append(problems, problemf(doc.path, 1, "axis %s stands %d times, want once", axis, count[axis]))
		}
	}
	return problems
}

func checkSpec(p project, template []entry, doc document) []problem {
	c, entries := p.contract, readEntries(doc)
	problems := append(checkNumbers(doc, entries), checkAxesOnce(c, doc, entries)...)
	for i, e := range entries {
		if i < len(template) && e.title != template[i].title {
			problems = append(problems, problemf(doc.path, e.line, "entry %q is called %q in the template", e.title, template[i].title))
		}
		if e.answer == "" {
			problems = append(problems, problemf(doc.path, e.line, "entry %q has no answer", e.title))
		}
		if e.evidence == "" {
			problems = append(problems, problemf(doc.path, e.line, "entry %q has no evidence", e.title))
		}
		for _, choice := range e.axes {
			if codes := c.axes[choice.axis]; codes != nil && !slices.Contains(codes, choice.code) {
				problems = append(problems, problemf(doc.path, choice.line, "axis %s has no code %s in the contract's 4.20", choice.axis, choice.code))
			}
		}
		problems = append(problems, checkEvidence(p, doc, e)...)
	}
	return append(problems, checkRows(c, doc)...)
}

var inlineCode = regexp.MustCompile("`([^`]+)`")

// codesIn gives the inline code in a text.
func codesIn(text string) []string {
	matches := inlineCode.FindAllStringSubmatch(text, -1)
	codes := make([]string, 0, len(matches))
	for _, m := range matches {
		codes = append(codes, m[1])
	}
	return codes
}

// clientSymbol is inline code that can only be a name of the backend's client library.
var clientSymbol = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*$`)

// checkEvidence looks the client symbols up that kvm2's spec gives as evidence.
func checkEvidence(p project, doc document, e entry) []problem {
	if doc.path != "docs/kvm2"+specSuffix {
		return nil
	}
	var problems []problem
	for _, symbol := range codesIn(e.evidence) {
		if clientSymbol.MatchString(symbol) && !testName.MatchString(symbol) && !p.libvirt[symbol] {
			problems = append(problems, problemf(doc.path, e.line, "%s declares no %s", libvirtModule, symbol))
		}
	}
	return problems
}

// checkRows: the spec maps the rows of the contract's section 11 to tests, each once, in order, and no
// test serves two rows.
func checkRows(c contract, doc document) []problem {
	var problems []problem
	rows := doc.rowsUnder("row")
	ids := func(rows []tableRow) (ids []string) {
		for _, r := range rows {
			ids = append(ids, r.texts[0])
		}
		return ids
	}
	if !slices.Equal(ids(rows), ids(c.rows)) {
		problems = append(problems, problemf(doc.path, 1, "the rows of the contract's section 11 are not mapped one to one"))
	}
	seen := map[string]bool{}
	for _, r := range rows {
		for _, name := range testName.FindAllString(strings.Join(r.texts[1:], " "), -1) {
			if seen[name] {
				problems = append(problems, problemf(doc.path, r.line, "test %s stands in two rows", name))
			}
			seen[name] = true
		}
	}
	return problems
}
