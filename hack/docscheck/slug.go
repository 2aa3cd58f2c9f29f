package main

import (
	"fmt"
	"strings"
	"unicode"
)

// slugger makes the anchors of one document's headings, as GitHub does: lower case, spaces to hyphens,
// everything but letters, digits, hyphens and underscores dropped, repetitions numbered.
type slugger map[string]int

func (s slugger) slug(heading string) string {
	slug := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(heading))
	seen := s[slug]
	s[slug]++
	if seen > 0 {
		return fmt.Sprintf("%s-%d", slug, seen)
	}
	return slug
}
