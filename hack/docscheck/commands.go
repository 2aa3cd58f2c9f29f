package main

import (
	"regexp"
	"slices"
	"strings"
)

var (
	longFlag = regexp.MustCompile(`^--([a-z][a-z0-9-]*)`)
	word     = regexp.MustCompile(`^[a-z][a-z-]*$`)
)

// everyCommand are the flags and commands that cobra adds by itself.
var everyCommand = []string{"help", "version", "completion"}

// checkCommands looks the commands and long flags of our programs up: in a command line of egressctl, and
// in inline code that begins with two hyphens, which is a flag of ours by convention.
func checkCommands(p project, doc document) []problem {
	var problems []problem
	for command := range doc.commands() {
		ours := command.words[0] == "egressctl"
		if !ours && !strings.HasPrefix(command.words[0], "--") {
			continue
		}
		if ours && len(command.words) > 1 && word.MatchString(command.words[1]) && !known(p.source.commands, command.words[1]) {
			problems = append(problems, problemf(doc.path, command.line, "egressctl has no command %s", command.words[1]))
		}
		for _, w := range command.words {
			if flag := longFlag.FindStringSubmatch(w); len(flag) > 1 && !known(p.source.flags, flag[1]) {
				problems = append(problems, problemf(doc.path, command.line, "no Go file declares the flag --%s", flag[1]))
			}
		}
	}
	return problems
}

func known(declared map[string]bool, name string) bool {
	return declared[name] || slices.Contains(everyCommand, name)
}
