package main

import "regexp"

var testName = regexp.MustCompile(`\bTest[A-Z][A-Za-z0-9]*_[A-Za-z0-9_]+`)

// checkTestNames looks every name of the form TestX_y up, wherever it stands.
func checkTestNames(p project, doc document) []problem {
	var problems []problem
	for i, line := range doc.lines {
		for _, name := range testName.FindAllString(line, -1) {
			if !p.source.tests[name] {
				problems = append(problems, problemf(doc.path, i+1, "no Go file declares the test %s", name))
			}
		}
	}
	return problems
}
