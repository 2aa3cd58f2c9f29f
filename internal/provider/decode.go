package provider

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The YAML tree is decoded here, and not by sigs.k8s.io/yaml by way of JSON, for three things that JSON
// loses: each problem's path, all problems at once, and keys that stand twice in one entry without
// spoiling the others.

// nodeType is decoded as it stands, for a later pass.
var nodeType = reflect.TypeFor[*yaml.Node]()

// defaulter fills in what the file does not say, before it is read.
type defaulter interface{ setDefaults() }

// parseYAML reads the one document that data holds.
func parseYAML(data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty")
	} else if err != nil {
		return nil, fmt.Errorf("not YAML: %w", err)
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file must hold one YAML document and no more")
	}
	if len(doc.Content) == 0 {
		return nil, errors.New("the file is empty")
	}
	return doc.Content[0], nil
}

// decoder fills Go values from a YAML tree by their json tags, and notes every problem on the way.
// Unknown keys, keys that stand twice, values of another kind and aliases are problems; null is as good
// as nothing.
type decoder struct{ problems Problems }

func (d *decoder) decode(n *yaml.Node, v reflect.Value, path string) {
	if v.Type() == nodeType {
		v.Set(reflect.ValueOf(n))
		return
	}
	if n.Kind == yaml.AliasNode {
		// Followed aliases grow without bound, and tie an entry to another one.
		d.problems.add(path, "YAML aliases are not read here: write the value out")
		return
	}
	if isNull(n) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.decode(n, v.Elem(), path)
	case reflect.Struct:
		d.structure(n, v, path)
	case reflect.Map:
		d.mapping(n, v, path)
	case reflect.Slice:
		d.sequence(n, v, path)
	default:
		d.scalar(n, v, path)
	}
}

func (d *decoder) structure(n *yaml.Node, v reflect.Value, path string) {
	if def, ok := v.Addr().Interface().(defaulter); ok {
		def.setDefaults()
	}
	fields := map[string]reflect.Value{}
	var known []string
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name != "-" {
			fields[name] = v.Field(i)
			known = append(known, name)
		}
	}
	d.eachKey(n, path, func(key, at string, value *yaml.Node) {
		if field, ok := fields[key]; ok {
			d.decode(value, field, at)
			return
		}
		d.problems.add(at, "unknown key; the keys here are %s", strings.Join(known, ", "))
	})
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string) {
	v.Set(reflect.MakeMap(v.Type()))
	d.eachKey(n, path, func(key, at string, value *yaml.Node) {
		elem := reflect.New(v.Type().Elem()).Elem()
		d.element(value, elem, at)
		v.SetMapIndex(reflect.ValueOf(key), elem)
	})
}

func (d *decoder) sequence(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		d.problems.add(path, "must be a list, is %s", kindOf(n))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		d.element(item, v.Index(i), fmt.Sprintf("%s[%d]", path, i))
	}
}

// element decodes one of several, of which none may be empty.
func (d *decoder) element(n *yaml.Node, v reflect.Value, path string) {
	if v.Type() != nodeType && isNull(n) {
		d.problems.add(path, "is empty")
		return
	}
	d.decode(n, v, path)
}

// eachKey calls visit for every key of a mapping that stands there for the first time.
func (d *decoder) eachKey(n *yaml.Node, path string, visit func(key, at string, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.problems.add(path, "must be a mapping, is %s", kindOf(n))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode {
			d.problems.add(path, "line %d: a key must be text", key.Line)
			continue
		}
		at := pathTo(path, key.Value)
		if seen[key.Value] {
			d.problems.add(at, "stands twice, again in line %d", key.Line)
			continue
		}
		seen[key.Value] = true
		visit(key.Value, at, n.Content[i+1])
	}
}

func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string) {
	tag := ""
	if n.Kind == yaml.ScalarNode {
		tag = n.ShortTag()
	}
	switch v.Kind() {
	case reflect.String:
		switch tag {
		case "!!str", "!!int", "!!float", "!!timestamp":
			v.SetString(n.Value) // as written: a digest of digits only is no number
		case "!!bool":
			d.problems.add(path, "must be text, is %s: put it in quotes", kindOf(n))
		default:
			d.problems.add(path, "must be text, is %s", kindOf(n))
		}
	case reflect.Int:
		var number int
		if tag != "!!int" || n.Decode(&number) != nil {
			d.problems.add(path, "must be a whole number, is %s", kindOf(n))
			return
		}
		v.SetInt(int64(number))
	case reflect.Bool:
		var yes bool
		if tag != "!!bool" || n.Decode(&yes) != nil {
			d.problems.add(path, "must be true or false, is %s", kindOf(n))
			return
		}
		v.SetBool(yes)
	default:
		panic("a configuration field of kind " + v.Kind().String() + " has no decoder")
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// kindOf names what stands in the file, in a user's words.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	default: // a scalar: a document node stands only at the root, and is taken off there
	}
	switch n.ShortTag() {
	case "!!str":
		if strings.Contains(n.Value, "://") {
			return "a URL" // which may hold a password
		}
		return "the text " + quote(n.Value)
	case "!!null":
		return "nothing"
	}
	return n.Value
}

// plainKey is a key that stands in a path without quotes.
var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)

// pathTo is the path of a key in what stands at path.
func pathTo(path, key string) string {
	switch {
	case !plainKey.MatchString(key):
		return path + "[" + quote(key) + "]"
	case path == "":
		return key
	}
	return path + "." + key
}
