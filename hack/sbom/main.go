// Command sbom writes what an image holds as a CycloneDX document, JSON, on standard output: the modules of
// its Go binary, from the build information in the binary itself, and the CA certificates beside it. The
// same files give the same bytes, so it has neither a serial number nor the time of its making.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// files are what the document is made from.
type files struct {
	binary    string
	version   string    // the operator's
	date      time.Time // of the source
	ca        string    // the bundle of CA certificates
	caVersion string    // of the Debian package that they are from; empty for another source
}

func main() {
	var f files
	var epoch int64
	flag.StringVar(&f.binary, "binary", "", "the Go binary")
	flag.StringVar(&f.version, "version", "", "the binary's version")
	flag.Int64Var(&epoch, "date", 0, "the source's date, seconds since 1970 (SOURCE_DATE_EPOCH)")
	flag.StringVar(&f.ca, "ca", "", "the bundle of CA certificates")
	flag.StringVar(&f.caVersion, "ca-version", "", "version of the Debian package ca-certificates; empty if they are from elsewhere")
	flag.Parse()
	f.date = time.Unix(epoch, 0).UTC()
	if err := write(os.Stdout, f); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func write(w io.Writer, f files) error {
	info, err := buildinfo.ReadFile(f.binary)
	if err != nil {
		return fmt.Errorf("%s: %w", f.binary, err)
	}
	binary, err := hash(f.binary)
	if err != nil {
		return err
	}
	ca, err := certificates(f)
	if err != nil {
		return err
	}
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	components := []cdx.Component{ca, module(&debug.Module{Path: "std", Version: goVersion})}
	for _, m := range info.Deps {
		components = append(components, module(m))
	}
	main := module(&debug.Module{Path: info.Main.Path, Version: f.version})
	main.Type, main.Hashes = cdx.ComponentTypeApplication, binary

	document := cdx.NewBOM()
	document.Metadata = &cdx.Metadata{Timestamp: f.date.Format(time.RFC3339), Component: &main}
	document.Components = &components
	document.Dependencies = dependencies(main, components)
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(document)
}

// module is one Go module, by what it was replaced with where it was.
func module(m *debug.Module) cdx.Component {
	if m.Replace != nil {
		m = m.Replace
	}
	url := "pkg:golang/" + m.Path + "@" + m.Version
	c := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: url}
	if m.Sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: m.Sum}}
	}
	return c
}

func certificates(f files) (cdx.Component, error) {
	sum, err := hash(f.ca)
	if err != nil {
		return cdx.Component{}, err
	}
	c := cdx.Component{BOMRef: "ca-certificates", Type: cdx.ComponentTypeData, Name: "ca-certificates", Hashes: sum}
	if f.caVersion != "" {
		c.Version = f.caVersion
		c.PackageURL = "pkg:deb/debian/ca-certificates@" + strings.ReplaceAll(f.caVersion, "+", "%2B")
	}
	return c, nil
}

// dependencies says that the program uses all of them: a binary does not tell which module uses which.
func dependencies(main cdx.Component, components []cdx.Component) *[]cdx.Dependency {
	refs := make([]string, 0, len(components))
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}
	slices.Sort(refs)
	return &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
}

func hash(file string) (*[]cdx.Hash, error) {
	r, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("hash: %w", err)
	}
	defer r.Close()
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return nil, fmt.Errorf("hash %s: %w", file, err)
	}
	return &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(h.Sum(nil))}}, nil
}
