// Docscheck reads every Markdown file of the project and reports what it names and what does not exist:
// links, anchors, paths, make targets, tests, flags, commands, configuration keys, Go symbols, and rules of
// the provider contract. It also checks that the contract and the provider specs agree.
//
//	go run ./hack/docscheck
//
// It prints one line per problem and exits with 1 when there is one.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
)

func main() {
	problems, err := checkProject(os.DirFS("."), func(module string) (map[string]bool, error) {
		return moduleSymbols(context.Background(), module)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "docscheck:", err)
		os.Exit(2)
	}
	for _, p := range problems {
		fmt.Println(p)
	}
	if len(problems) > 0 {
		fmt.Fprintf(os.Stderr, "docscheck: %d problems\n", len(problems))
		os.Exit(1)
	}
}

// problem is one thing that a document says and that is not so.
type problem struct {
	file string
	line int
	text string
}

func (p problem) String() string { return fmt.Sprintf("%s:%d: %s", p.file, p.line, p.text) }

// problemf is a problem at a place of a document.
func problemf(file string, line int, format string, args ...any) problem {
	return problem{file: file, line: line, text: fmt.Sprintf(format, args...)}
}

// inOrder sorts problems as a reader goes through the files, and drops repetitions.
func inOrder(problems []problem) []problem {
	slices.SortFunc(problems, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.text, b.text))
	})
	return slices.Compact(problems)
}
