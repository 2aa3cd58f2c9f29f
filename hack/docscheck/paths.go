package main

import (
	"io/fs"
	"regexp"
	"strings"
)

// ourPath is inline code that is a path of this project: it begins with a directory of the top level. A
// placeholder such as <type> makes it a form, not a path.
var ourPath = regexp.MustCompile(`^(api|charts|cmd|config|docs|hack|internal|test|tools)/[\w./*-]+$`)

// checkPaths looks every path in inline code up. A pattern with * must match something.
func checkPaths(p project, doc document) []problem {
	var problems []problem
	for _, span := range doc.spans {
		if !ourPath.MatchString(span.text) {
			continue
		}
		found := p.exists(span.text)
		if strings.Contains(span.text, "*") {
			matches, err := fs.Glob(p.files, strings.TrimSuffix(span.text, "/"))
			found = err == nil && len(matches) > 0
		}
		if !found {
			problems = append(problems, problemf(doc.path, span.line, "path %s does not exist", span.text))
		}
	}
	return problems
}
