package egressctl

import (
	"regexp"
	"strings"
)

// plainWord needs no quotes in a shell.
var plainWord = regexp.MustCompile(`^[-A-Za-z0-9_./:=@%+,]+$`)

// again gives the command line that goes on with an instance: verb, name, and the flags of this run
// that say where to look.
func (r *runner) again(verb, entry, name string) string {
	words := []string{"egressctl", verb, name, "--entry", entry}
	for _, flag := range [][2]string{{"--config", r.configPath}, {"--state-dir", r.stateDir}} {
		if flag[1] != "" {
			words = append(words, flag[0], flag[1])
		}
	}
	for i, w := range words {
		if !plainWord.MatchString(w) {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}
