package main

import (
	"context"
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// moduleSymbols gives the names that the root package of a module in go.mod declares.
func moduleSymbols(ctx context.Context, module string) (map[string]bool, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output() //nolint:gosec // the module is a constant of ours
	if err != nil {
		return nil, fmt.Errorf("find module %s: %w", module, err)
	}
	paths, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "*.go"))
	if err != nil {
		return nil, fmt.Errorf("find module %s: %w", module, err)
	}
	symbols := map[string]bool{}
	for _, name := range paths {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read module %s: %w", module, err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("read module %s: %w", module, err)
		}
		if !strings.HasSuffix(file.Name.Name, "_test") {
			maps.Copy(symbols, declaredNames(file))
		}
	}
	return symbols, nil
}
