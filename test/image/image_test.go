//go:build integration

// Package image_test builds the operator's image, twice and in two places, and looks into it.
package image_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
)

const (
	root    = "../.."
	version = "v0.0.0-test"
	date    = "1700000000"
)

// archive is an OCI archive, by the paths in it.
type archive map[string][]byte

// The parts of the OCI image specification that are looked at.
type (
	descriptor struct {
		Digest      string
		Annotations map[string]string
		Platform    struct{ Architecture, OS string }
	}
	index    struct{ Manifests []descriptor }
	manifest struct {
		Config descriptor
		Layers []descriptor
	}
	config struct {
		Created string
		Config  struct {
			User       string
			Entrypoint []string
			Labels     map[string]string
			Env        []string
		}
	}
)

func (a archive) blob(t *testing.T, digest string, into any) {
	t.Helper()
	data := a["blobs/"+strings.ReplaceAll(digest, ":", "/")]
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", digest, err)
	}
}

// images gives the images of the archive by architecture.
func (a archive) images(t *testing.T) map[string]manifest {
	t.Helper()
	var top, list index
	if err := json.Unmarshal(a["index.json"], &top); err != nil || len(top.Manifests) != 1 {
		t.Fatalf("index.json: %v, %d manifests", err, len(top.Manifests))
	}
	a.blob(t, top.Manifests[0].Digest, &list)
	found := map[string]manifest{}
	for _, d := range list.Manifests {
		var m manifest
		a.blob(t, d.Digest, &m)
		found[d.Platform.OS+"/"+d.Platform.Architecture] = m
	}
	return found
}

// build builds the image in a checkout and gives the archive and the directory of the results.
func build(t *testing.T, checkout string) (archive, string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "./hack/operator-image", "build")
	command.Dir = checkout
	command.Env = append(os.Environ(), "VERSION="+version, "SOURCE_DATE_EPOCH="+date)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("operator-image build: %v\n%s", err, out)
	}
	results := filepath.Join(checkout, "bin", "operator-image")
	return read(t, filepath.Join(results, "operator.tar")), results
}

func read(t *testing.T, file string) archive {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return untar(t, f, nil)
}

// untar gives the contents of the files in a tar stream; each header goes to look.
func untar(t *testing.T, r io.Reader, look func(*tar.Header)) archive {
	t.Helper()
	found := archive{}
	for tr := tar.NewReader(r); ; {
		header, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if look != nil {
			look(header)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		found[header.Name] = data
	}
}

func TestImage(t *testing.T) {
	first, results := build(t, root)
	images := first.images(t)

	t.Run("two builds in two places have one digest", func(t *testing.T) {
		second, _ := build(t, copyOfCheckout(t))
		if diff := cmp.Diff(string(first["index.json"]), string(second["index.json"])); diff != "" {
			t.Errorf("the digests differ: -here, +in a copy of the checkout:\n%s", diff)
		}
	})
	t.Run("both architectures are there, each with its own binary", func(t *testing.T) {
		machines := map[string]elf.Machine{"linux/amd64": elf.EM_X86_64, "linux/arm64": elf.EM_AARCH64}
		if len(images) != len(machines) {
			t.Errorf("the archive has %d images, want %d", len(images), len(machines))
		}
		for platform, machine := range machines {
			file, err := elf.NewFile(bytes.NewReader(first.layer(t, images[platform], nil)["operator"]))
			if err != nil {
				t.Fatalf("%s: %v", platform, err)
			}
			if file.Machine != machine {
				t.Errorf("%s: the binary is for %s", platform, file.Machine)
			}
			if file.Section(".interp") != nil {
				t.Errorf("%s: the binary asks for a loader, which an empty base does not have", platform)
			}
		}
	})
	t.Run("nothing is in it but the binary and certificates, all root's and old", func(t *testing.T) {
		want := []string{
			"etc/ 755", "etc/ssl/ 755", "etc/ssl/certs/ 755", "etc/ssl/certs/ca-certificates.crt 444", "operator 555",
		}
		for platform, m := range images {
			var got []string
			first.layer(t, m, func(h *tar.Header) {
				got = append(got, strings.TrimPrefix(h.Name, "./")+" "+permissions(h))
				if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 1700000000 {
					t.Errorf("%s: %s belongs to %d:%d and is of %s", platform, h.Name, h.Uid, h.Gid, h.ModTime)
				}
			})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", platform, diff)
			}
		}
	})
	t.Run("it runs as an unprivileged user, and says no more than that", func(t *testing.T) {
		for platform, m := range images {
			var c config
			first.blob(t, m.Config.Digest, &c)
			if c.Config.User != "65532:65532" || len(c.Config.Entrypoint) != 1 || c.Config.Entrypoint[0] != "/operator" {
				t.Errorf("%s: user %q, entrypoint %v", platform, c.Config.User, c.Config.Entrypoint)
			}
			if len(c.Config.Labels) != 0 {
				t.Errorf("%s: labels %v tell how it was built", platform, c.Config.Labels)
			}
			if c.Created != "2023-11-14T22:13:20Z" {
				t.Errorf("%s: made at %s, want the source's date", platform, c.Created)
			}
		}
	})
	t.Run("no path of this machine is in it", func(t *testing.T) {
		here, err := filepath.Abs(root)
		if err != nil {
			t.Fatal(err)
		}
		for platform, m := range images {
			if bytes.Contains(first.layer(t, m, nil)["operator"], []byte(here)) {
				t.Errorf("%s: the binary names %s", platform, here)
			}
		}
	})
	t.Run("the binary tells the version that it was given", func(t *testing.T) {
		out, err := exec.CommandContext(t.Context(), filepath.Join(results, "root", "operator-amd64"), "--version").Output()
		if err != nil || strings.TrimSpace(string(out)) != version {
			t.Errorf("--version: %v, %q, want %s", err, out, version)
		}
	})
	t.Run("the bill of materials names what is in it", func(t *testing.T) {
		for _, arch := range []string{"amd64", "arm64"} {
			billOfMaterials(t, filepath.Join(results, "operator-"+arch+".cdx.json"))
		}
	})
}

func permissions(h *tar.Header) string { return strconv.FormatInt(h.Mode&0o7777, 8) }

// layer gives the files of an image, which has one layer.
func (a archive) layer(t *testing.T, m manifest, look func(*tar.Header)) archive {
	t.Helper()
	if len(m.Layers) != 1 {
		t.Fatalf("the image has %d layers, want 1", len(m.Layers))
	}
	r, err := gzip.NewReader(bytes.NewReader(a["blobs/"+strings.ReplaceAll(m.Layers[0].Digest, ":", "/")]))
	if err != nil {
		t.Fatal(err)
	}
	return untar(t, r, look)
}

func billOfMaterials(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(f, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if got := bom.Metadata.Component.Version; got != version {
		t.Errorf("%s: the operator has version %s, want %s", file, got, version)
	}
	names := map[string]bool{}
	for _, c := range *bom.Components {
		names[c.Name] = c.Version != ""
	}
	for _, name := range []string{"std", "ca-certificates", "github.com/digitalocean/go-libvirt", "sigs.k8s.io/controller-runtime"} {
		if !names[name] {
			t.Errorf("%s: %s is missing, or has no version", file, name)
		}
	}
}

// copyOfCheckout copies what git knows, as a clone elsewhere would have it, with files of another time.
func copyOfCheckout(t *testing.T) string {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Mkdir(copied, 0o700); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "sh", "-c",
		`git ls-files --cached --others --exclude-standard -z | tar --null --ignore-failed-read --files-from=- -cf - | tar -C "$1" --touch -xf -`, "sh", copied)
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("copy the checkout: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		_ = exec.CommandContext(context.WithoutCancel(t.Context()), "chmod", "-R", "u+w", copied).Run()
	})
	return copied
}
