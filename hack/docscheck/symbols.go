package main

import (
	"regexp"
	"strings"
)

// qualified is inline code that is an exported name of a package, with members and a call's brackets.
// Lower-case names behind the dot are spans and configuration keys.
var qualified = regexp.MustCompile(`^[*&]?([a-z][a-z0-9]*)\.([A-Z]\w*(?:\.[A-Z]\w*)*)(?:\(.*\))?$`)

// checkSymbols looks qualified names of our own packages up.
func checkSymbols(p project, doc document) []problem {
	var problems []problem
	for _, span := range doc.spans {
		match := qualified.FindStringSubmatch(span.text)
		if match == nil {
			continue
		}
		names, ours := p.source.names[match[1]]
		if !ours {
			continue
		}
		for _, name := range strings.Split(match[2], ".") {
			if !names[name] {
				problems = append(problems, problemf(doc.path, span.line, "package %s declares no %s", match[1], name))
			}
		}
	}
	return problems
}
