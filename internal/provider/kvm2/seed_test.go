package kvm2

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

func testSeedSpec(userData string) seedSpec {
	return seedSpec{UID: testUID, Hostname: "proxy-1a2b3c-berlin-0f1e2d3c", UserData: provider.Secret(userData)}
}

// isoFile builds a seed and gives the path of a copy of it.
func isoFile(t *testing.T, spec seedSpec) string {
	t.Helper()
	s, err := buildSeed(spec)
	if err != nil {
		t.Fatalf("buildSeed: %v", err)
	}
	data, err := io.ReadAll(s)
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatalf("read the seed: %v", err)
	}
	if int64(len(data)) != s.Size {
		t.Fatalf("the seed has %d bytes, want the declared %d", len(data), s.Size)
	}
	path := filepath.Join(t.TempDir(), "seed.iso")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// tool runs one of the programs that know ISO 9660 independently of the library that wrote it: blkid
// of util-linux, as cloud-init's detector does, and xorriso.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).Output()
	if err != nil {
		t.Fatalf("run %s (make test-packages installs it): %v", name, err)
	}
	return strings.TrimSpace(string(out))
}

// isoContent gives the files of a seed by name.
func isoContent(t *testing.T, spec seedSpec) map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "out")
	tool(t, "xorriso", "-osirrox", "on", "-indev", isoFile(t, spec), "-extract", "/", dir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(data)
	}
	return files
}

func TestSeedISO_filesAndLabel(t *testing.T) {
	if label := tool(t, "blkid", "-p", "-o", "value", "-s", "LABEL", isoFile(t, testSeedSpec(""))); label != "cidata" {
		t.Errorf("label is %q, want cidata: cloud-init knows the seed by it", label)
	}
	cases := map[string]struct {
		reason string
		spec   seedSpec
		want   []string
	}{
		"plain":            {"all three are always there", testSeedSpec("#cloud-config\n"), []string{"meta-data", "user-data", "vendor-data"}},
		"empty user-data":  {"without the file there would be no data source", testSeedSpec(""), []string{"meta-data", "user-data", "vendor-data"}},
		"network-config":   {"it is written when there is one", seedSpec{UID: testUID, Hostname: "vm", NetworkConfig: []byte("version: 2\n")}, []string{"meta-data", "network-config", "user-data", "vendor-data"}},
		"extra vendordata": {"it is in the same file", seedSpec{UID: testUID, Hostname: "vm", ExtraVendorData: "#!/bin/sh\n"}, []string{"meta-data", "user-data", "vendor-data"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			files := isoContent(t, tc.spec)
			var names []string
			for n := range files {
				names = append(names, n)
			}
			slices.Sort(names)
			if diff := cmp.Diff(tc.want, names); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestSeedISO_metaData(t *testing.T) {
	var got map[string]string
	if err := yaml.Unmarshal([]byte(isoContent(t, testSeedSpec(""))["meta-data"]), &got); err != nil {
		t.Fatalf("meta-data is no YAML: %v", err)
	}
	want := map[string]string{"instance-id": testUID, "local-hostname": "proxy-1a2b3c-berlin-0f1e2d3c"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestSeedISO_userDataByteForByte(t *testing.T) {
	noise := make([]byte, 1_000_000)
	if _, err := rand.Read(noise); err != nil {
		t.Fatal(err)
	}
	noise[0], noise[1] = 0x1f, 0x8b // as gzip begins
	cases := map[string]string{
		"empty":            "",
		"one byte":         "#",
		"under a sector":   strings.Repeat("a", 2047),
		"a sector":         strings.Repeat("b", 2048),
		"over a sector":    strings.Repeat("c", 2049),
		"under 64 KiB":     strings.Repeat("d", 65_535),
		"64 KiB":           strings.Repeat("e", 65_536),
		"no final newline": "#cloud-config\nhostname: x",
		"CRLF":             "#!/bin/sh\r\necho hi\r\n",
		"not ASCII":        "#cloud-config\n# žluťoučký kůň 🦊\n",
		"NUL inside":       "#cloud-config\nx: \x00\n",
		"MIME":             "Content-Type: multipart/mixed; boundary=\"b\"\r\n\r\n--b\r\n\r\n--b--\r\n",
		"jinja":            "## template: jinja\n#cloud-config\n{{ v1.local_hostname }}\n",
		"large and binary": string(noise),
	}
	for name, data := range cases {
		t.Run(name, func(t *testing.T) {
			if got := isoContent(t, testSeedSpec(data))["user-data"]; got != data {
				t.Errorf("user-data of %d bytes came back as %d other bytes", len(data), len(got))
			}
		})
	}
}

func TestSeedISO_refusesWhatCloudInitWouldIgnore(t *testing.T) {
	cases := map[string]struct{ reason, data, want string }{
		"UTF-8 mark":       {"the first line is not recognised", "\xef\xbb\xbf#cloud-config\n", "byte order mark"},
		"UTF-16":           {"nothing is recognised", "\xff\xfe#\x00c\x00", "UTF-16"},
		"UTF-16 big":       {"nothing is recognised", "\xfe\xff\x00#\x00c", "UTF-16"},
		"UTF-16, no mark":  {"nothing is recognised", "#\x00c\x00", "UTF-16"},
		"more than 1 MiB":  {"no Secret can hold it", strings.Repeat("x", 1<<20+1), "Kubernetes"},
		"never the secret": {"the data is a secret", "\xef\xbb\xbfSENTINEL", "byte order mark"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := buildSeed(testSeedSpec(tc.data))
			if !errors.Is(err, provider.ErrPermanent) || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("%s: error is %v, want ErrPermanent that says %q", tc.reason, err, tc.want)
			}
			if strings.Contains(err.Error(), "SENTINEL") {
				t.Error("the error quotes the user-data")
			}
		})
	}
}

// The seed holds secrets: nothing of it may have a name on the disk once it is built, so that not
// even a killed process leaves it behind.
func TestSeedISO_tempDirRemoved(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	s, err := buildSeed(testSeedSpec("#cloud-config\n"))
	if err != nil {
		t.Fatalf("buildSeed: %v", err)
	}
	left, err := os.ReadDir(tmp)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 0 {
		t.Errorf("%s holds %v while the seed is open, want nothing", tmp, left)
	}
	first := make([]byte, 1)
	if n, err := s.Read(first); n != 1 || err != nil {
		t.Errorf("the open seed reads %d bytes, error %v", n, err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestSeedISO_tempDirRemovedAfterAnError(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	file, err := unnamedFile()
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := writeImage(file, map[string][]byte{"user-data": []byte("x")}); err == nil {
		t.Fatal("writing to a closed file gives no error")
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
		t.Errorf("%s holds %v (%v), want nothing", tmp, left, err)
	}
}

func TestSeedISO_noTempDirIsTransient(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	_, err := buildSeed(testSeedSpec(""))
	if !errors.Is(err, provider.ErrTransient) {
		t.Errorf("error is %v, want ErrTransient", err)
	}
}

func TestHostLabel_validUniqueStable(t *testing.T) {
	names := []string{
		"vm", "123", "a.b.c", "a-b-c", strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 253), strings.Repeat("a", 252) + "b",
		strings.Repeat("a", 62) + "-", strings.Repeat("a", 62) + "-b", "Windows Server 2019", "VM", "", "...", "é",
	}
	seen := map[string]string{}
	for _, name := range names {
		label := hostLabel(name)
		if !namePattern.MatchString(label) {
			t.Errorf("the label of %q is %q, which is none", name, label)
		}
		if label != hostLabel(name) {
			t.Errorf("the label of %q differs between two calls", name)
		}
		if other, taken := seen[label]; taken {
			t.Errorf("%q and %q share the label %q", name, other, label)
		}
		seen[label] = name
	}
	if got := hostLabel("proxy-1a2b3c-berlin-0f1e2d3c"); got != "proxy-1a2b3c-berlin-0f1e2d3c" {
		t.Errorf("a valid name became %q, want it unchanged", got)
	}
}

func TestSeed_secretNeverPrinted(t *testing.T) {
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		out := fmt.Sprintf(verb, testSeedSpec("SENTINEL"))
		if strings.Contains(out, "SENTINEL") || strings.Contains(out, "53454e54494e454c") {
			t.Errorf("%s prints the user-data: %s", verb, out)
		}
	}
}
