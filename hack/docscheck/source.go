package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// source is what the project's Go files declare.
type source struct {
	// names by package name: functions, types, variables, constants, and the methods and fields of
	// types. Test files do not count.
	names    map[string]map[string]bool
	tests    map[string]bool
	flags    map[string]bool // long names, without hyphens
	commands map[string]bool // first words of cobra commands' Use
	// reasons are the values of string constants called reason... or Reason... of the contract and of kvm2.
	reasons map[string]bool
	// comments in order of the files' names, for the rules that they cite.
	comments []comment
}

// comment is one line of a Go comment.
type comment struct {
	file string
	line int
	text string
}

// parseSource reads Go files, those with build tags included.
func parseSource(files map[string][]byte) (source, error) {
	s := source{names: map[string]map[string]bool{}, tests: map[string]bool{}, flags: map[string]bool{}, commands: map[string]bool{}, reasons: map[string]bool{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, files[name], parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return source{}, fmt.Errorf("parse Go: %w", err)
		}
		s.addComments(fset, file, name)
		if strings.HasSuffix(name, "_test.go") {
			for declared := range declaredNames(file) {
				s.tests[declared] = true
			}
			continue
		}
		pkg := file.Name.Name
		if s.names[pkg] == nil {
			s.names[pkg] = map[string]bool{}
		}
		maps.Copy(s.names[pkg], declaredNames(file))
		s.addCommands(file)
		if dir := path.Dir(name); dir == "internal/provider" || dir == "internal/provider/kvm2" {
			s.addReasons(file)
		}
	}
	return s, nil
}

func (s *source) addComments(fset *token.FileSet, file *ast.File, name string) {
	for _, group := range file.Comments {
		for _, c := range group.List {
			for i, text := range strings.Split(c.Text, "\n") {
				s.comments = append(s.comments, comment{name, fset.Position(c.Pos()).Line + i, text})
			}
		}
	}
}

// addReasons notes the reasons that errors and checks can have.
func (s *source) addReasons(file *ast.File) {
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, name := range spec.Names {
			if !strings.HasPrefix(strings.ToLower(name.Name), "reason") || i >= len(spec.Values) {
				continue
			}
			if text, ok := stringOf(spec.Values[i]); ok {
				s.reasons[text] = true
			}
		}
		return true
	})
}

// declaredNames gives what a file declares: top-level names, methods, fields and interface methods.
func declaredNames(file *ast.File) map[string]bool {
	names := map[string]bool{}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			names[d.Name.Name] = true
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				addSpec(names, spec)
			}
		}
	}
	return names
}

func addSpec(names map[string]bool, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			names[name.Name] = true
		}
	case *ast.TypeSpec:
		names[s.Name.Name] = true
		for _, list := range membersOf(s.Type) {
			for _, name := range list.Names {
				names[name.Name] = true
			}
		}
	}
}

func membersOf(expr ast.Expr) []*ast.Field {
	switch t := expr.(type) {
	case *ast.StructType:
		return t.Fields.List
	case *ast.InterfaceType:
		return t.Methods.List
	}
	return nil
}

// flagMethod is a method of flag.FlagSet or pflag.FlagSet that declares a flag.
var flagMethod = regexp.MustCompile(`^((Bool|Count|Duration|Float64|Func|Int|Int64|String|StringArray|StringSlice|StringToString|TextVar|Uint|Uint16)(Var)?P?|VarP?|BoolFunc)$`)

// addCommands notes flags and cobra commands. A call whose method has a flag method's name declares the
// first of its arguments that is a string.
func (s *source) addCommands(file *ast.File) {
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.CallExpr:
			if method, ok := n.Fun.(*ast.SelectorExpr); ok && flagMethod.MatchString(method.Sel.Name) {
				for _, arg := range n.Args {
					if text, ok := stringOf(arg); ok {
						s.flags[text] = true
						break
					}
				}
			}
		case *ast.KeyValueExpr:
			key, isName := n.Key.(*ast.Ident)
			if text, ok := stringOf(n.Value); ok && isName && key.Name == "Use" {
				s.commands[strings.Fields(text + " ?")[0]] = true
			}
		}
		return true
	})
}

func stringOf(expr ast.Expr) (string, bool) {
	literal, ok := expr.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return text, err == nil
}
