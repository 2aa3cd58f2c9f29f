package main

import "strings"

// emDash is spelled as an escape, so that a search for the character does not find this file.
const emDash = "\u2014"

// checkDashes refuses em-dashes: the house style writes plain sentences.
func checkDashes(_ project, doc document) []problem {
	var problems []problem
	for i, line := range doc.lines {
		if strings.Contains(line, emDash) {
			problems = append(problems, problemf(doc.path, i+1, "em-dash: write two sentences, a comma or a colon"))
		}
	}
	return problems
}
