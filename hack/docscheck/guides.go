package main

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// guidePath is the user guide of kvm2. Its tables with the headings "field" and "reason" are references:
// they hold everything that there is, and nothing else.
const guidePath = "docs/kvm2-provider.md"

// checkGuide compares the guide's references with the configuration type and with the reasons in the code.
func checkGuide(p project) []problem {
	doc, ok := p.documents[guidePath]
	if !ok {
		return nil // a dead link says so
	}
	keys := map[string]bool{}
	jsonKeys(reflect.TypeFor[provider.KVMConfig](), keys)
	problems := checkReference(doc, "field", keys)
	return append(problems, checkReference(doc, "reason", p.source.reasons)...)
}

// checkReference compares the first columns of the tables under a heading with what there is.
func checkReference(doc document, heading string, want map[string]bool) []problem {
	var problems []problem
	told := map[string]bool{}
	for _, row := range doc.rowsUnder(heading) {
		for _, name := range row.codes[0] {
			told[name] = true
			if !want[name] {
				problems = append(problems, problemf(doc.path, row.line, "there is no %s %s", heading, name))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !told[name] {
			problems = append(problems, problemf(doc.path, 1, "the %s %s stands in no table", heading, name))
		}
	}
	return problems
}

// jsonKeys adds the keys of a struct and of what its fields hold.
func jsonKeys(t reflect.Type, keys map[string]bool) {
	switch t.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer:
		jsonKeys(t.Elem(), keys)
	case reflect.Struct:
		for i := range t.NumField() {
			key, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			keys[key] = true
			jsonKeys(t.Field(i).Type, keys)
		}
	default:
	}
}
