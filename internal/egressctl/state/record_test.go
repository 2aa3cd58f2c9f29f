package state_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/state"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

func record(entry, name string) *state.Record {
	return &state.Record{
		Entry: entry, Name: name, UID: "u", InstanceName: "i", ID: "hosts/beelink/domains/i",
		CreatedAt: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC),
		Inputs: state.Inputs{
			Placement: provider.Placement{Zone: "beelink", MachineType: "small", Image: "trixie"},
			Port:      3128, AuthUser: "alice", AllowSources: []string{"198.51.100.0/24"},
		},
		CheckURL: "none", PasswordHash: "h", Password: "p", ProbeUser: "pu", ProbePassword: "pp",
		UserData: []byte("#cloud-config\n\x00\xff"),
	}
}

func TestSave_roundTrip(t *testing.T) {
	dir := open(t, t.TempDir())
	want := record("kvm2-home", "berlin-1")
	if err := dir.Save(want); err != nil {
		t.Fatal(err)
	}
	got, err := dir.Load("kvm2-home", "berlin-1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a record must come back as it was, user-data byte for byte: -want, +got:\n%s", diff)
	}
}

func TestLoad_absent(t *testing.T) {
	dir := open(t, t.TempDir())
	if err := dir.Save(record("kvm2-home", "berlin-1")); err != nil {
		t.Fatal(err)
	}
	for _, at := range [][2]string{{"kvm2-home", "berlin-2"}, {"kvm2-lab", "berlin-1"}} {
		if _, err := dir.Load(at[0], at[1]); !errors.Is(err, state.ErrNoRecord) {
			t.Errorf("load of %v gave %v, want ErrNoRecord", at, err)
		}
	}
}

func TestRemove_twice(t *testing.T) {
	dir := open(t, t.TempDir())
	if err := dir.Save(record("kvm2-home", "berlin-1")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := dir.Remove("kvm2-home", "berlin-1"); err != nil {
			t.Errorf("remove: %v", err)
		}
	}
	if _, err := dir.Load("kvm2-home", "berlin-1"); !errors.Is(err, state.ErrNoRecord) {
		t.Errorf("the record is still there: %v", err)
	}
}

func TestList_ordersAndGoesOnPastADamagedRecord(t *testing.T) {
	dir := open(t, t.TempDir())
	for _, at := range [][2]string{{"b", "y"}, {"a", "z"}, {"a", "x"}} {
		if err := dir.Save(record(at[0], at[1])); err != nil {
			t.Fatal(err)
		}
	}
	damaged := filepath.Join(dir.Path(), "instances", "a_x.json")
	if err := os.WriteFile(damaged, []byte(`{"password":"sesame`), 0o600); err != nil {
		t.Fatal(err)
	}
	// What a writer that was killed leaves is no record.
	if err := os.WriteFile(filepath.Join(dir.Path(), "instances", ".new-1"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	records, err := dir.List()
	var got []string
	for _, r := range records {
		got = append(got, r.Entry+"/"+r.Name)
	}
	if diff := cmp.Diff([]string{"a/z", "b/y"}, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if err == nil || !strings.Contains(err.Error(), damaged) || strings.Contains(err.Error(), "sesame") {
		t.Errorf("error = %v, want one that names the damaged file and none of its content", err)
	}
}

func TestLoad_newerFormatIsRefused(t *testing.T) {
	dir := open(t, t.TempDir())
	path := filepath.Join(dir.Path(), "instances", "a_x.json")
	if err := os.WriteFile(path, []byte(`{"version": 99}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Load("a", "x"); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Errorf("a record of a newer format gave %v: reading half of it could lose the rest", err)
	}
}

func TestSave_leavesTheOldOneWhenItFails(t *testing.T) {
	dir := open(t, t.TempDir())
	if err := dir.Save(record("a", "x")); err != nil {
		t.Fatal(err)
	}
	instances := filepath.Join(dir.Path(), "instances")
	// A directory under the record's name makes the rename fail, whoever runs the test.
	if err := os.Mkdir(filepath.Join(instances, "a_y.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := dir.Save(record("a", "y")); err == nil {
		t.Error("a save over a directory succeeded")
	}
	entries, err := os.ReadDir(instances)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff([]string{"a_x.json", "a_y.json"}, got); diff != "" {
		t.Errorf("a failed save must leave nothing half written: -want, +got:\n%s", diff)
	}
}
