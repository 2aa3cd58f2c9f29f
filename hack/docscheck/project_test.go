package main

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// healthy is a small project in which everything that the documents name exists.
func healthy() map[string]string {
	return map[string]string{
		"Makefile":  "GO := go\ndemo: ## Show it.\n\t@true\ntest-unit: ## Try it.\n",
		testingPath: "# Testing\n\n`make test-unit`\n",
		"README.md": "# Egress\n\nRead [the contract](docs/provider-contract.md#1-words), see `docs/provider-contract.md` and\n" +
			"`internal/*/thing.go`, run `make demo`, then:\n\n" +
			"```sh\n# make a proxy\nLAB=1 make demo\n./bin/egressctl create berlin-1 \\\n  --zone beelink | jq .\n```\n\n" +
			"`thing.New(ctx)` is proved by `TestThing_works` (R2.1). Use `--zone`.\n\n" +
			"```yaml\ncheckURL: none\nproviders: []\n```\n\n    make demo # all of it\n",
		"internal/thing/thing.go": "// Package thing keeps R2.1.\npackage thing\n\n" +
			"// New makes one.\nfunc New() { flags.StringVar(&z, \"zone\", \"\", \"the zone\"); _ = C{Use: \"create NAME\"} }\n",
		"internal/thing/thing_test.go": "package thing\n\nfunc TestThing_works(t *testing.T) {}\n",
		contractPath: "# Contract\n\n## 1 Words\n\n## 2 Methods\n\n" +
			"- **[R2.1]** (`create-return` blocking) Create MUST return.\n- **[R2.2]** (`Checker`) Check MAY wait.\n\n" +
			"## 4 Axes\n\n| section | axis | codes |\n|---|---|---|\n| 4.1 | `create-return` | `blocking`, `asynchronous` |\n\n" +
			"## 11 Tests\n\n| row | name | rules |\n|---|---|---|\n| T1 | `Thing_works` | R2.1 |\n",
		"internal/provider/errors.go": "package provider\n\nconst ReasonBusy = \"Busy\"\n",
		guidePath: "# Guide\n\n| field | default |\n|---|---|\n| " + allKeys() + " | x |\n\n" +
			"| reason | what to do |\n|---|---|\n| `Busy` | wait |\n",
		existingPath:                 "# Providers\n\n| axis | kvm2 |\n|---|---|\n| `create-return` | `blocking` |\n",
		templatePath:                 "# Template\n\n" + entries("...", "", "", ""),
		"docs/kvm2-provider-spec.md": "# kvm2\n\n" + entries("blocking", "Yes.", "`DomainCreate`.", "| T1 | `TestThing_works` |"),
	}
}

// allKeys gives the configuration's keys as inline code.
func allKeys() string {
	keys := map[string]bool{}
	jsonKeys(reflect.TypeFor[provider.KVMConfig](), keys)
	return "`" + strings.Join(slices.Sorted(maps.Keys(keys)), "` `") + "`"
}

// entries gives 24 numbered entries; the first one chooses an axis code and maps the rows.
func entries(code, answer, evidence, rows string) string {
	var out strings.Builder
	for i := range entryCount {
		fmt.Fprintf(&out, "### %d. Entry %d\n\n", i+1, i+1)
		if i == 0 {
			fmt.Fprintf(&out, "Axis: `create-return` = `%s`\n\n", code)
		}
		fmt.Fprintf(&out, "Answer: %s\n", answer)
		if i == 0 && rows != "" {
			fmt.Fprintf(&out, "\n| row | test |\n|---|---|\n%s\n", rows)
		}
		fmt.Fprintf(&out, "\nEvidence: %s\n\n", evidence)
	}
	return out.String()
}

// problemsOf runs every check over files.
func problemsOf(t *testing.T, files map[string]string) []string {
	t.Helper()
	tree := fstest.MapFS{}
	for name, content := range files {
		tree[name] = &fstest.MapFile{Data: []byte(content)}
	}
	problems, err := checkProject(tree, func(string) (map[string]bool, error) {
		return map[string]bool{"DomainCreate": true}, nil
	})
	if err != nil {
		t.Fatalf("check the project: %v", err)
	}
	var texts []string
	for _, p := range problems {
		texts = append(texts, p.String())
	}
	return texts
}

func TestCheckProject_healthyHasNoProblem(t *testing.T) {
	if diff := cmp.Diff([]string(nil), problemsOf(t, healthy())); diff != "" {
		t.Errorf("a project in which everything exists must pass (-want, +got):\n%s", diff)
	}
}

// edit breaks one thing: in file, the only occurrence of old becomes replacement.
type edit struct{ file, old, replacement string }

func TestCheckProject_findsEachBrokenThing(t *testing.T) {
	spec := "docs/kvm2-provider-spec.md"
	cases := map[string]struct {
		reason string
		edit   edit
		want   []string
	}{
		"dead link": {
			reason: "a link to a file that is gone",
			edit:   edit{"README.md", "(docs/provider-contract.md#1-words)", "(docs/gone.md)"},
			want:   []string{"README.md:3: link to docs/gone.md: there is no such file"},
		},
		"absolute link": {
			reason: "an absolute link works nowhere but on one web server",
			edit:   edit{"README.md", "(docs/provider-contract.md#1-words)", "(/docs/provider-contract.md)"},
			want:   []string{"README.md:3: link to /docs/provider-contract.md: there is no such file"},
		},
		"dead anchor": {
			reason: "the heading was renamed",
			edit:   edit{contractPath, "## 1 Words", "## 1 Terms"},
			want:   []string{"README.md:3: link to #1-words: docs/provider-contract.md has no such heading"},
		},
		"dead path": {
			reason: "a path in backticks",
			edit:   edit{"README.md", "`docs/provider-contract.md`", "`docs/contract.md`"},
			want:   []string{"README.md:3: path docs/contract.md does not exist"},
		},
		"dead pattern": {
			reason: "a pattern that matches nothing",
			edit:   edit{"README.md", "internal/*/thing.go", "internal/*/gone.go"},
			want:   []string{"README.md:4: path internal/*/gone.go does not exist"},
		},
		"make target in a sentence": {
			reason: "inline code is a command",
			edit:   edit{"README.md", "run `make demo`", "run `make show`"},
			want:   []string{"README.md:4: the Makefile has no target show"},
		},
		"make target in a block": {
			reason: "assignments before make do not hide it, comments are not commands",
			edit:   edit{"README.md", "LAB=1 make demo", "LAB=1 make show"},
			want:   []string{"README.md:8: the Makefile has no target show"},
		},
		"make target in an indented block": {
			reason: "indented code holds commands too",
			edit:   edit{"README.md", "\n    make demo", "\n    make show"},
			want:   []string{"README.md:20: the Makefile has no target show"},
		},
		"test target that the page on testing lacks": {
			reason: "whoever looks for a way to test finds all of them",
			edit:   edit{testingPath, "`make test-unit`", "`make demo`"},
			want:   []string{testingPath + ":1: make test-unit is not named"},
		},
		"variable of the Makefile": {
			reason: "GO := go is no target",
			edit:   edit{"README.md", "run `make demo`", "run `make GO`"},
			want:   []string{"README.md:4: the Makefile has no target GO"},
		},
		"test name": {
			reason: "a test that is planned and not written",
			edit:   edit{"README.md", "TestThing_works", "TestThing_fails"},
			want:   []string{"README.md:13: no Go file declares the test TestThing_fails"},
		},
		"em-dash": {
			reason: "the house style",
			edit:   edit{"README.md", "# Egress", "# Egress " + emDash + " proxies"},
			want:   []string{"README.md:1: em-dash: write two sentences, a comma or a colon"},
		},
		"Go symbol": {
			reason: "our package, no such name",
			edit:   edit{"README.md", "`thing.New(ctx)`", "`thing.Make(ctx)`"},
			want:   []string{"README.md:13: package thing declares no Make"},
		},
		"flag in a block": {
			reason: "also on a continued line and before a pipe",
			edit:   edit{"README.md", "  --zone beelink", "  --host beelink"},
			want:   []string{"README.md:9: no Go file declares the flag --host"},
		},
		"flag in a sentence": {
			reason: "bare inline flags are ours",
			edit:   edit{"README.md", "`--zone`", "`--host`"},
			want:   []string{"README.md:13: no Go file declares the flag --host"},
		},
		"command": {
			reason: "egressctl has the commands that cobra knows",
			edit:   edit{"README.md", "egressctl create", "egressctl destroy"},
			want:   []string{"README.md:9: egressctl has no command destroy"},
		},
		"configuration key": {
			reason: "the programs would refuse the file",
			edit:   edit{"README.md", "checkURL: none", "checkURL: none\ncheckUrl: none"},
			want:   []string{"README.md:16: not a providers file: checkUrl: unknown key; the keys here are checkURL, providers"},
		},
		"configuration entry": {
			reason: "an entry that the programs would refuse",
			edit:   edit{"README.md", "providers: []", "providers: [{name: kvm2-home, type: lxc}]"},
			want:   []string{`README.md:16: not a usable entry: providers[0].type: must be kvm2 or static, is "lxc"`},
		},
		"cited rule": {
			reason: "a document cites a rule that is gone",
			edit:   edit{"README.md", "(R2.1)", "(R2.9)"},
			want:   []string{"README.md:13: the contract has no rule R2.9"},
		},
		"rule cited in Go": {
			reason: "comments cite rules too",
			edit:   edit{"internal/thing/thing.go", "keeps R2.1", "keeps R2.9"},
			want:   []string{"internal/thing/thing.go:1: the contract has no rule R2.9"},
		},
		"rule twice": {
			reason: "an id belongs to one rule",
			edit:   edit{contractPath, "**[R2.2]** (`Checker`) Check MAY wait", "**[R2.1]** (`Checker`) Check MAY wait"},
			want:   []string{contractPath + ":8: rule id R2.1 stands twice"},
		},
		"rule in the wrong section": {
			reason: "an id begins with its section",
			edit:   edit{contractPath, "[R2.2]", "[R3.2]"},
			want:   []string{contractPath + ":8: rule id R3.2 does not fit section 2"},
		},
		"rule without a word": {
			reason: "a rule binds, or it is no rule",
			edit:   edit{contractPath, "Check MAY wait", "Check waits"},
			want:   []string{contractPath + ":8: rule R2.2 needs exactly one word of RFC 2119, has 0"},
		},
		"rule that nothing tests": {
			reason: "a MUST of section 2 has a row in section 11",
			edit:   edit{contractPath, "Check MAY wait", "Check MUST wait"},
			want:   []string{contractPath + ":8: rule R2.2 stands in no row of section 11"},
		},
		"condition": {
			reason: "a condition names codes of 4.20",
			edit:   edit{contractPath, "(`create-return` blocking)", "(`create-return` slow)"},
			want:   []string{contractPath + ":7: rule R2.1: (`create-return` slow) is neither an axis with its codes nor an optional interface"},
		},
		"axis code in a spec": {
			reason: "a spec chooses codes of 4.20",
			edit:   edit{spec, "= `blocking`", "= `slow`"},
			want: []string{
				spec + ":5: axis create-return has no code slow in the contract's 4.20",
				existingPath + `:5: axis create-return of kvm2 is "blocking" here and "slow" in the spec`,
			},
		},
		"axis missing in the template": {
			reason: "the template asks for every axis",
			edit:   edit{templatePath, "Axis: `create-return` = `...`", ""},
			want:   []string{templatePath + ":1: axis create-return stands 0 times, want once"},
		},
		"entry missing": {
			reason: "24 entries",
			edit:   edit{spec, "### 24. Entry 24", "Entry 24"},
			want:   []string{spec + ":1: 23 numbered entries, want 24"},
		},
		"entry renamed": {
			reason: "a spec keeps the template's headings",
			edit:   edit{spec, "### 24. Entry 24", "### 24. Other"},
			want:   []string{spec + `:147: entry "24. Other" is called "24. Entry 24" in the template`},
		},
		"blank answer": {
			reason: "no answer is blank",
			edit:   edit{spec, "### 24. Entry 24\n\nAnswer: Yes.", "### 24. Entry 24\n\nAnswer:"},
			want:   []string{spec + `:147: entry "24. Entry 24" has no answer`},
		},
		"blank evidence": {
			reason: "no evidence is blank",
			edit:   edit{spec, "### 2. Entry 2\n\nAnswer: Yes.\n\nEvidence: `DomainCreate`.", "### 2. Entry 2\n\nAnswer: Yes.\n\nEvidence:"},
			want:   []string{spec + `:15: entry "2. Entry 2" has no evidence`},
		},
		"client symbol": {
			reason: "evidence cites symbols that the client library has",
			edit:   edit{spec, "### 2. Entry 2\n\nAnswer: Yes.\n\nEvidence: `DomainCreate`.", "### 2. Entry 2\n\nAnswer: Yes.\n\nEvidence: `DomainMake`."},
			want:   []string{spec + ":15: github.com/digitalocean/go-libvirt declares no DomainMake"},
		},
		"field that the configuration lacks": {
			reason: "the guide's tables of fields are a reference",
			edit:   edit{guidePath, "`sshKeyFile`", "`sshKeyFile` `sshKey`"},
			want:   []string{guidePath + ":5: there is no field sshKey"},
		},
		"field that the guide lacks": {
			reason: "a reference is whole",
			edit:   edit{guidePath, "`sshKeyFile`", ""},
			want:   []string{guidePath + ":1: the field sshKeyFile stands in no table"},
		},
		"reason": {
			reason: "the guide's reasons are those of the code",
			edit:   edit{guidePath, "`Busy`", "`Idle`"},
			want:   []string{guidePath + ":1: the reason Busy stands in no table", guidePath + ":9: there is no reason Idle"},
		},
		"axis code in the appendix": {
			reason: "the appendix repeats the spec",
			edit:   edit{existingPath, "`blocking`", "`asynchronous`"},
			want:   []string{existingPath + `:5: axis create-return of kvm2 is "asynchronous" here and "blocking" in the spec`},
		},
		"axis missing in the appendix": {
			reason: "the appendix has every axis",
			edit:   edit{existingPath, "| `create-return` | `blocking` |\n", ""},
			want:   []string{existingPath + ":3: axis create-return of kvm2 stands in no row"},
		},
		"provider without a spec": {
			reason: "a column needs a spec",
			edit:   edit{existingPath, "| axis | kvm2 |", "| axis | proxmox |"},
			want:   []string{existingPath + ":3: there is no spec of proxmox"},
		},
		"row not mapped": {
			reason: "rows and tests are one to one",
			edit:   edit{spec, "| T1 | `TestThing_works` |", "| T2 | `TestThing_works` |"},
			want:   []string{spec + ":1: the rows of the contract's section 11 are not mapped one to one"},
		},
		"one test for two rows": {
			reason: "rows and tests are one to one",
			edit:   edit{spec, "| T1 | `TestThing_works` |", "| T1 | `TestThing_works`, `TestThing_works` |"},
			want:   []string{spec + ":11: test TestThing_works stands in two rows"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			files := maps.Clone(healthy())
			if n := strings.Count(files[tc.edit.file], tc.edit.old); n != 1 {
				t.Fatalf("%q stands %d times in %s, want once: the case breaks nothing", tc.edit.old, n, tc.edit.file)
			}
			files[tc.edit.file] = strings.Replace(files[tc.edit.file], tc.edit.old, tc.edit.replacement, 1)
			if diff := cmp.Diff(tc.want, problemsOf(t, files)); diff != "" {
				t.Errorf("%s (-want, +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestCheckProject_missingContractIsAProblem(t *testing.T) {
	files := healthy()
	delete(files, contractPath)
	want := contractPath + ":1: the provider contract is missing"
	for _, got := range problemsOf(t, files) {
		if got == want {
			return
		}
	}
	t.Errorf("no problem %q: a project without its contract must not pass", want)
}
