package main

import (
	"slices"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// checkConfigs loads every YAML block that is a providers file, as the programs do: strictly.
func checkConfigs(_ project, doc document) []problem {
	var problems []problem
	for _, b := range doc.blocks {
		isProviders := slices.ContainsFunc(strings.Split(b.code, "\n"), func(line string) bool {
			return strings.HasPrefix(line, "providers:")
		})
		if b.language != "yaml" || !isProviders {
			continue
		}
		config, err := provider.Load([]byte(b.code))
		if err != nil {
			problems = append(problems, problemf(doc.path, b.line, "not a providers file: %v", err))
		}
		for _, broken := range config.Broken {
			problems = append(problems, problemf(doc.path, b.line, "not a usable entry: %v", broken))
		}
	}
	return problems
}
