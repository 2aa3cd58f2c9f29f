package main

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// project is what the documents can name.
type project struct {
	files     fs.FS
	documents map[string]document // by path
	contract  contract
	source    source
	targets   []string // of the Makefile
	// libvirt are the exported names of go-libvirt, which the kvm2 spec cites.
	libvirt map[string]bool
}

// libvirtModule is the client library whose symbols the kvm2 spec gives as evidence.
const libvirtModule = "github.com/digitalocean/go-libvirt"

// checkProject reads the project in files and runs every check. symbolsOf gives a module's exported names.
func checkProject(files fs.FS, symbolsOf func(module string) (map[string]bool, error)) ([]problem, error) {
	p, err := readProject(files)
	if err != nil {
		return nil, err
	}
	if p.libvirt, err = symbolsOf(libvirtModule); err != nil {
		return nil, err
	}
	var problems []problem
	for _, doc := range p.documents {
		for _, check := range []func(project, document) []problem{
			checkDashes, checkLinks, checkPaths, checkTargets, checkTestNames, checkSymbols, checkCommands,
			checkConfigs, checkCitations,
		} {
			problems = append(problems, check(p, doc)...)
		}
	}
	problems = append(problems, checkGoCitations(p)...)
	problems = append(problems, checkContract(p)...)
	problems = append(problems, checkSpecs(p)...)
	problems = append(problems, checkGuide(p)...)
	problems = append(problems, checkExisting(p)...)
	problems = append(problems, checkTestTargets(p)...)
	return inOrder(problems), nil
}

func readProject(files fs.FS) (project, error) {
	p := project{files: files, documents: map[string]document{}}
	makefile, err := fs.ReadFile(files, "Makefile")
	if err != nil {
		return project{}, fmt.Errorf("read the make targets: %w", err)
	}
	p.targets = makeTargets(string(makefile))
	goFiles := map[string][]byte{}
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if notOurs(name) {
				return fs.SkipDir
			}
			return nil
		case path.Ext(name) != ".md" && path.Ext(name) != ".go":
			return nil
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if path.Ext(name) == ".md" {
			p.documents[name] = parseDocument(name, content)
		} else {
			goFiles[name] = content
		}
		return nil
	})
	if err != nil {
		return project{}, fmt.Errorf("read the project: %w", err)
	}
	p.contract = readContract(p.documents[contractPath])
	p.source, err = parseSource(goFiles)
	return p, err
}

// notOurs reports whether a directory holds what is made, not written.
func notOurs(dir string) bool {
	return dir != "." && (strings.HasPrefix(path.Base(dir), ".") || slices.Contains([]string{"bin", "testdata"}, path.Base(dir)))
}

// exists reports whether the project has the path, a file or a directory.
func (p project) exists(name string) bool {
	_, err := fs.Stat(p.files, path.Clean(name))
	return err == nil
}
