package state_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/state"
)

func TestOwner_isKept(t *testing.T) {
	path := t.TempDir()
	first, err := open(t, path).Owner(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := open(t, path).Owner(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if first != second || first == "" {
		t.Errorf("the identity was %q, then %q: it must be made once", first, second)
	}
	other, err := open(t, t.TempDir()).Owner(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if other == first {
		t.Errorf("two state directories share the identity %q", first)
	}
}

func TestOwner_oneHoweverManyStartAtOnce(t *testing.T) {
	path := t.TempDir()
	owners := make([]string, 20)
	var wg sync.WaitGroup
	for i := range owners {
		wg.Go(func() {
			dir, err := state.Open(path)
			if err == nil {
				owners[i], err = dir.Owner(t.Context())
			}
			if err != nil {
				t.Errorf("owner %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if got := slices.Compact(owners); len(got) != 1 || got[0] == "" {
		t.Errorf("starts at the same time got the identities %q, want one", got)
	}
}

func TestOwner_lostOneIsNotReplaced(t *testing.T) {
	cases := map[string]struct {
		reason string
		spoil  func(path string) error
	}{
		"Removed": {"a new identity could not touch what is recorded", os.Remove},
		"Emptied": {"an empty file is not an identity", func(p string) error { return os.WriteFile(p, nil, 0o600) }},
		"Garbage": {"garbage is not an identity", func(p string) error { return os.WriteFile(p, []byte("x\n"), 0o600) }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := open(t, t.TempDir())
			if _, err := dir.Owner(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := dir.Save(&state.Record{Entry: "kvm2-home", Name: "berlin-1"}); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir.Path(), "owner")
			if err := tc.spoil(path); err != nil {
				t.Fatal(err)
			}
			owner, err := dir.Owner(t.Context())
			if err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: got %q, %v; want an error that names %s", tc.reason, owner, err, path)
			}
		})
	}
}
