// Conformancedoc makes docs/conformance.md of the reports that conformance.Run writes: a column for each report in
// the directory, a row for each rule.
//
//	go run ./hack/conformancedoc DIR > docs/conformance.md
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/conformance"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: conformancedoc DIR")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "conformancedoc:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no reports in %s: %w", dir, err)
	}
	head, rule := "| rule |", "|---|"
	var summaries, tails strings.Builder
	outcomes := map[string][]string{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var r conformance.Report
		if err := json.Unmarshal(data, &r); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if !r.Green() {
			return fmt.Errorf("%s is not green: %s", r.Provider, r.Summary())
		}
		head, rule = head+" "+r.Provider+" |", rule+"---|"
		fmt.Fprintf(&summaries, "- %s, %s: %s.\n", r.Provider, r.Date.Format("2006-01-02"), r.Summary())
		for _, result := range r.Results {
			cell := string(result.Outcome)
			if len(result.Notes) > 0 {
				cell += ": " + strings.Join(result.Notes, "; ")
			}
			outcomes[result.Rule] = append(outcomes[result.Rule], cell)
		}
	}
	for _, r := range conformance.Rules() {
		fmt.Fprintf(&tails, "| %s | %s |\n", r.ID, strings.Join(outcomes[r.ID], " | "))
	}
	fmt.Printf("# Conformance\n\nHow each provider keeps the [contract](provider-contract.md), rule by rule. `make conformance` makes this page.\n\n%s\n%s\n%s\n%s",
		summaries.String(), head, rule, tails.String())
	return nil
}
