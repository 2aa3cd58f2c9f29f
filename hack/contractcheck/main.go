// Contractcheck compares the provider contract with the conformance suite: each MUST of the contract's sections 2
// and 8 has a case, no case cites anything else, and the suite's copy of rules and axis codes is not stale.
//
//	go run ./hack/contractcheck           prints one line per problem and exits with 1 when there is one
//	go run ./hack/contractcheck --write   writes the suite's copy of the rules anew
package main

import (
	"flag"
	"fmt"
	"os"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/conformance"
)

const (
	contractPath = "docs/provider-contract.md"
	rulesPath    = "internal/provider/conformance/rules_gen.go"
)

func main() {
	write := flag.Bool("write", false, "write "+rulesPath+" anew")
	flag.Parse()
	problems, err := run(*write)
	if err != nil {
		fmt.Fprintln(os.Stderr, "contractcheck:", err)
		os.Exit(2)
	}
	for _, p := range problems {
		fmt.Println(p)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

func run(write bool) (problems []string, err error) {
	text, err := os.ReadFile(contractPath)
	if err != nil {
		return nil, err
	}
	contract := read(string(text))
	if write {
		source, err := contract.source()
		if err != nil {
			return nil, err
		}
		return nil, os.WriteFile(rulesPath, source, 0o644) //nolint:gosec // source code, for everyone to read
	}
	return contract.compare(conformance.Rules(), conformance.Cases(), conformance.AxisCodes()), nil
}
