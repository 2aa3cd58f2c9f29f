package main

import (
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// checkConfigs decodes every YAML block that is a providers file, strictly: a key that the configuration
// does not know is a problem.
func checkConfigs(_ project, doc document) []problem {
	var problems []problem
	for _, b := range doc.blocks {
		isProviders := slices.ContainsFunc(strings.Split(b.code, "\n"), func(line string) bool {
			return strings.HasPrefix(line, "providers:")
		})
		if b.language != "yaml" || !isProviders {
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(b.code), &provider.Config{}); err != nil {
			problems = append(problems, problemf(doc.path, b.line, "not a providers file: %v", err))
		}
	}
	return problems
}
