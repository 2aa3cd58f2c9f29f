// Package output prints what egressctl has to say: tables for people, JSON and YAML for scripts.
package output

import (
	"strings"
	"unicode"
)

// Clean makes one line of s that a terminal shows as it is: whatever a host put into a message, it
// cannot move the cursor, hide text or fake a line.
func Clean(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}
