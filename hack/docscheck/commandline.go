package main

import (
	"iter"
	"regexp"
	"slices"
	"strings"
)

// commandLine is a command as a document shows it, split at spaces.
type commandLine struct {
	line  int
	words []string
}

var (
	assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
	// between ends one command on a line and begins the next.
	between = regexp.MustCompile(`\|\||&&|[|;&]|\$\(`)
)

// shells are the languages of blocks that hold commands. A fenced block without a language is output or a
// sketch.
var shells = []string{"sh", "bash", "shell", "console", indented}

// commands gives the commands in a document's inline code and in its shell blocks, fenced or indented. A prompt, assignments
// before the command, sudo and a leading path are left out; lines that end in a backslash are joined.
func (d document) commands() iter.Seq[commandLine] {
	return func(yield func(commandLine) bool) {
		for _, source := range d.commandText() {
			for _, part := range between.Split(source.text, -1) {
				words := commandWords(part)
				if len(words) > 0 && !yield(commandLine{source.line, words}) {
					return
				}
			}
		}
	}
}

// commandText gives the places where commands stand.
func (d document) commandText() []fragment {
	found := slices.Clone(d.spans)
	for _, b := range d.blocks {
		if !slices.Contains(shells, b.language) {
			continue
		}
		lines := strings.Split(b.code, "\n")
		for i := 0; i < len(lines); i++ {
			start, text := i, lines[i]
			for strings.HasSuffix(text, "\\") && i+1 < len(lines) {
				i++
				text = strings.TrimSuffix(text, "\\") + " " + lines[i]
			}
			if text, _, _ = strings.Cut(text, " #"); !strings.HasPrefix(strings.TrimSpace(text), "#") {
				found = append(found, fragment{b.line + start, text})
			}
		}
	}
	return found
}

func commandWords(text string) []string {
	words := strings.Fields(strings.TrimPrefix(strings.TrimSpace(text), "$ "))
	for len(words) > 0 && (assignment.MatchString(words[0]) || words[0] == "sudo") {
		words = words[1:]
	}
	if len(words) > 0 {
		words[0] = words[0][strings.LastIndexByte(words[0], '/')+1:]
	}
	return words
}
