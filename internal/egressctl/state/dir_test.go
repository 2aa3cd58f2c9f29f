package state_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/state"
)

func open(t *testing.T, path string) *state.Dir {
	t.Helper()
	dir, err := state.Open(path)
	if err != nil {
		t.Fatalf("open %s: %v", path, err)
	}
	return dir
}

func TestDefaultPath(t *testing.T) {
	cases := map[string]struct {
		reason string
		env    map[string]string
		want   string
	}{
		"XDG":         {"XDG_STATE_HOME wins over HOME", map[string]string{"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/egressctl"},
		"Home":        {"the XDG default is below HOME", map[string]string{"HOME": "/h"}, "/h/.local/state/egressctl"},
		"RelativeXDG": {"the XDG specification ignores relative paths", map[string]string{"XDG_STATE_HOME": "x", "HOME": "/h"}, "/h/.local/state/egressctl"},
		"Nothing":     {"without either there is no place, and no guess", nil, ""},
		"RelativeHom": {"a relative HOME is no place either", map[string]string{"HOME": "."}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := state.DefaultPath(func(key string) string { return tc.env[key] })
			if (err != nil) != (tc.want == "") {
				t.Errorf("%s: error = %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestOpen_everythingIsPrivate(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a", "b")
	dir := open(t, root)
	if _, err := dir.Owner(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := dir.Save(&state.Record{Entry: "kvm2-home", Name: "berlin-1"}); err != nil {
		t.Fatal(err)
	}
	err := filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v: others must not read it", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestOpen_namesStayInside(t *testing.T) {
	dir := open(t, t.TempDir())
	for _, name := range []string{"", "..", "../x", "a/b", "a_b", ".a", "a\x00b", strings.Repeat("a", 3) + "\n"} {
		if err := dir.Save(&state.Record{Entry: "kvm2-home", Name: name}); err == nil {
			t.Errorf("a record called %q was saved: such a name could leave the directory or hit another record", name)
		}
		if _, err := dir.Lock(t.Context(), name, "x", func() {}); err == nil {
			t.Errorf("an entry called %q was locked", name)
		}
	}
}
