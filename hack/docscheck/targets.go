package main

import (
	"regexp"
	"slices"
	"strings"
)

const testingPath = "docs/testing.md"

var targetLine = regexp.MustCompile(`(?m)^([A-Za-z0-9][A-Za-z0-9_.-]*(?: [A-Za-z0-9_.-]+)*):(?:[^=]|$)`)

// makeTargets gives the targets that a Makefile defines.
func makeTargets(makefile string) []string {
	matches := targetLine.FindAllStringSubmatch(makefile, -1)
	targets := make([]string, 0, len(matches))
	for _, match := range matches {
		targets = append(targets, strings.Fields(match[1])...)
	}
	return targets
}

// checkTargets looks the targets of every make command up.
func checkTargets(p project, doc document) []problem {
	var problems []problem
	for command := range doc.commands() {
		if command.words[0] != "make" {
			continue
		}
		for _, word := range command.words[1:] {
			if strings.HasPrefix(word, "-") || strings.Contains(word, "=") || slices.Contains(p.targets, word) {
				continue
			}
			problems = append(problems, problemf(doc.path, command.line, "the Makefile has no target %s", word))
		}
	}
	return problems
}

// checkTestTargets: the page on testing names every target that tests.
func checkTestTargets(p project) []problem {
	doc, ok := p.documents[testingPath]
	if !ok {
		return nil // a dead link says so
	}
	named := map[string]bool{}
	for command := range doc.commands() {
		if command.words[0] == "make" {
			for _, word := range command.words[1:] {
				named[word] = true
			}
		}
	}
	var problems []problem
	for _, target := range p.targets {
		if strings.HasPrefix(target, "test") && !named[target] {
			problems = append(problems, problemf(doc.path, 1, "make %s is not named", target))
		}
	}
	return problems
}
