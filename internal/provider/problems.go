package provider

import (
	"fmt"
	"strings"
)

// Problem is one thing that is wrong with the configuration, and where.
type Problem struct {
	// Path of the value, for example providers[1].kvm2.hosts[0].port. Empty for the whole file.
	Path string
	// Message says what is wrong and what would be right.
	Message string
}

// String gives "<path>: <message>".
func (p Problem) String() string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// Problems is everything that is wrong. It is an error.
type Problems []Problem //nolint:recvcheck // add appends, and everything else reads

// Error gives all problems in one line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "; ")
}

// add notes a problem.
func (ps *Problems) add(path, format string, args ...any) {
	*ps = append(*ps, Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

// addNew notes those of more that say something of a place of which nothing is said yet: a port that
// is not a number is not also out of range.
func (ps *Problems) addNew(more Problems) {
	known := map[string]bool{}
	for _, p := range *ps {
		known[p.Path] = true
	}
	for _, p := range more {
		if !covered(known, p.Path) {
			*ps = append(*ps, p)
		}
	}
}

// covered reports whether path, or what it stands in, is among the known ones.
func covered(known map[string]bool, path string) bool {
	for path != "" {
		if known[path] {
			return true
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return known[""]
}
