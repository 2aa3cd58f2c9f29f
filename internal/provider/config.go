package provider

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// TypeKVM2 is the type of a libvirt/KVM entry. TypeKVM is the older provider's, known only so that a
// user who still has such an entry is told how to port it.
const (
	TypeKVM2 = "kvm2"
	TypeKVM  = "kvm"
)

// CheckURLNone as the check URL says explicitly that no request is made through a new proxy.
const CheckURLNone = "none"

// MaxConfig is the most bytes that a providers file may have.
const MaxConfig = 1 << 20

// Config is the providers file.
type Config struct {
	// CheckURL is fetched through each proxy before it counts as ready, or CheckURLNone.
	CheckURL string `json:"checkURL"`
	// Providers that can be used, in the file's order, with their defaults set.
	Providers []Entry `json:"providers"`
	// Broken are the entries that cannot be used, in the file's order.
	Broken []BrokenEntry `json:"-"`
}

// Entry is one configured provider: a name, a type, and the one block of that type.
type Entry struct {
	Name string     `json:"name"`
	Type string     `json:"type"`
	KVM  *KVMConfig `json:"kvm,omitempty"`
	KVM2 *KVMConfig `json:"kvm2,omitempty"`

	Static *StaticConfig `json:"static,omitempty"`
}

// BrokenEntry is an entry that cannot be used, and why. It is an error.
type BrokenEntry struct {
	// Index in the file's list, from 0.
	Index int
	// Name as the file has it. Empty when it has none that is a DNS label.
	Name string
	// Type as the file has it, known or not.
	Type string
	// Problems are never empty.
	Problems Problems
}

// Error gives all problems of the entry in one line.
func (b BrokenEntry) Error() string { return b.Problems.Error() }

// Entry finds the entry of that name. The error says what is wrong with it, or which names there are.
func (c Config) Entry(name string) (Entry, error) {
	names := make([]string, 0, len(c.Providers))
	for _, e := range c.Providers {
		if e.Name == name {
			return e, nil
		}
		names = append(names, e.Name)
	}
	for _, b := range c.Broken {
		if b.Name == name {
			return Entry{}, Errorf(ErrPermanent, ReasonInvalidConfig, "entry %s of the providers file: %w", name, b)
		}
	}
	if len(names) == 0 {
		names = []string{"none"}
	}
	return Entry{}, Errorf(ErrPermanent, ReasonInvalidConfig,
		"the providers file has no usable entry %s; it has %s", quote(name), strings.Join(names, ", "))
}

// document is the file before its entries are read.
type document struct {
	CheckURL  string       `json:"checkURL"`
	Providers []*yaml.Node `json:"providers"`
}

// Load reads a providers file. It is strict: unknown keys, keys that stand twice and values of another
// kind are refused. Each entry is read on its own: what is wrong with one is told in Broken, and the
// others can be used. What is wrong with the file itself (not YAML, no check URL, no list) is an error
// of type Problems, which then also tells what is wrong with the entries.
//
// Load reads no other file. A path in the configuration is absolute, or begins with "~/", which stands
// for the home directory of the process ($HOME); relative paths are refused, because the working
// directory of an operator says nothing to its user.
func Load(data []byte) (Config, error) {
	if len(data) > MaxConfig {
		return Config{}, Problems{{Message: fmt.Sprintf("the file must have at most %d bytes, has %d", MaxConfig, len(data))}}
	}
	root, err := parseYAML(data)
	if err != nil {
		return Config{}, Problems{{Message: err.Error()}}
	}
	var doc document
	var file decoder
	file.decode(root, reflect.ValueOf(&doc).Elem(), "")
	file.problems.addNew(checkURLProblems(doc.CheckURL))
	if doc.Providers == nil {
		file.problems.addNew(Problems{{Path: "providers", Message: "is required: a list of entries"}})
	}
	config := Config{CheckURL: doc.CheckURL}
	config.Providers, config.Broken = loadEntries(doc.Providers)
	if file.problems != nil {
		for _, b := range config.Broken {
			file.problems = append(file.problems, b.Problems...)
		}
		return Config{}, file.problems
	}
	return config, nil
}

// loadEntries sorts the entries into those that can be used and those that cannot. Of two entries of
// one name the first keeps it.
func loadEntries(nodes []*yaml.Node) (good []Entry, broken []BrokenEntry) {
	first := map[string]int{}
	for i, node := range nodes {
		path := fmt.Sprintf("providers[%d]", i)
		entry, problems := loadEntry(path, node)
		named := isLabel(entry.Name)
		if at, taken := first[entry.Name]; named && taken {
			problems.add(path+".name", "is taken by providers[%d]: an entry needs a name of its own", at)
			named = false
		} else if named {
			first[entry.Name] = i
		}
		if problems == nil {
			good = append(good, entry)
			continue
		}
		bad := BrokenEntry{Index: i, Type: entry.Type, Problems: problems}
		if named {
			bad.Name = entry.Name
		}
		broken = append(broken, bad)
	}
	return good, broken
}

// loadEntry reads one entry and sets its defaults.
func loadEntry(path string, node *yaml.Node) (Entry, Problems) {
	var entry Entry
	var d decoder
	if isNull(node) {
		d.problems.add(path, "is empty")
		return entry, d.problems
	}
	d.decode(node, reflect.ValueOf(&entry).Elem(), path)
	d.problems.addNew(validateEntry(path, &entry))
	return entry, d.problems
}

// block is a type's block of an entry.
type block struct {
	name     string
	validate func(prefix string) Problems
}

// setBlocks are the blocks that the entry has.
func (e *Entry) setBlocks() []block {
	var blocks []block
	if e.KVM != nil {
		blocks = append(blocks, block{TypeKVM, func(prefix string) Problems { return validateKVM(prefix, e.KVM) }})
	}
	if e.KVM2 != nil {
		blocks = append(blocks, block{TypeKVM2, func(prefix string) Problems {
			return validateKVMBlock(prefix, TypeKVM2, e.KVM2)
		}})
	}
	if e.Static != nil {
		blocks = append(blocks, block{TypeStatic, func(prefix string) Problems { return validateStatic(prefix, e.Static) }})
	}
	return blocks
}

// usableTypes are the types that an entry may have.
var usableTypes = []string{TypeKVM2, TypeStatic}

// validateEntry checks an entry and brings its block into its normal form.
func validateEntry(path string, e *Entry) Problems {
	problems := labelProblems(path+".name", e.Name)
	usable := slices.Contains(usableTypes, e.Type)
	switch {
	case e.Type == TypeKVM:
		problems.add(path+".type", "kvm is not read any more: change type to kvm2 and rename the block kvm to kvm2, the rest stays")
	case !usable:
		problems.add(path+".type", "must be %s, is %s", strings.Join(usableTypes, " or "), quote(e.Type))
	}
	found := false
	for _, b := range e.setBlocks() {
		if usable && b.name != e.Type {
			problems.add(pathTo(path, b.name), "does not belong to type %s: its block is %s", e.Type, e.Type)
			continue
		}
		found = true
		problems = append(problems, b.validate(path)...)
	}
	if usable && !found {
		problems.add(pathTo(path, e.Type), "is required: the block of type %s", e.Type)
	}
	return problems
}

// checkURLProblems says what is wrong with the check URL. It never repeats the URL, which may hold a
// password.
func checkURLProblems(checkURL string) Problems {
	const path = "checkURL"
	switch checkURL {
	case "":
		return Problems{{path, "is required: an http or https URL that each proxy is tried with, or " + CheckURLNone}}
	case CheckURLNone:
		return nil
	}
	if problem := urlProblem(checkURL); problem != "" {
		return Problems{{path, problem + ", or " + CheckURLNone}}
	}
	return nil
}

// urlProblem says why s is not an http or https URL without credentials, or "". It does not repeat s.
func urlProblem(s string) string {
	u, err := url.Parse(s)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "":
		return "must be an http or https URL"
	case u.User != nil:
		return "must be a URL without user name and password"
	}
	return ""
}
