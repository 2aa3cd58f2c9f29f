package main

import "strings"

// existingPath is the appendix that compares the providers there are.
const existingPath = "docs/providers-existing.md"

// checkExisting compares the appendix' table of axis codes, one column per provider, with the specs.
func checkExisting(p project) []problem {
	var problems []problem
	for _, t := range p.documents[existingPath].tables {
		if t.header[0] != "axis" {
			continue
		}
		for column, name := range t.header[1:] {
			spec, ok := p.documents["docs/"+name+specSuffix]
			if !ok {
				problems = append(problems, problemf(existingPath, t.line, "there is no spec of %s", name))
				continue
			}
			codes := chosenCodes(spec)
			for _, row := range t.rows {
				axis, got := strings.Join(row.codes[0], " "), strings.Join(row.codes[column+1], " ")
				if codes[axis] != got {
					problems = append(problems, problemf(existingPath, row.line, "axis %s of %s is %q here and %q in the spec", axis, name, got, codes[axis]))
				}
				delete(codes, axis)
			}
			for axis := range codes {
				problems = append(problems, problemf(existingPath, t.line, "axis %s of %s stands in no row", axis, name))
			}
		}
	}
	return problems
}

// chosenCodes gives a spec's code by axis.
func chosenCodes(spec document) map[string]string {
	codes := map[string]string{}
	for _, e := range readEntries(spec) {
		for _, choice := range e.axes {
			codes[choice.axis] = choice.code
		}
	}
	return codes
}
