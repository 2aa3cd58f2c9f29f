package egressctl_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/probe"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/fake"
)

func TestCreate_printsTheProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "beelink").checked()
		d.env["EGRESSCTL_PASSWORD"] = "open sesame"
		e := d.must("create", "berlin-1", "--auth-user", "alice")
		want := `Name:          berlin-1
State:         Running
Entry:         kvm2-home
Zone:          beelink
Machine type:  small
Image:         trixie
ID:            ` + idOf("kvm2-home", "beelink", "berlin-1") + `
MAC:           52:54:00:44:fa:b6
Created:       2000-01-01T00:00:00Z
Address:       198.18.0.2
Proxy URL:     http://alice@198.18.0.2:3128
Egress IP:     203.0.113.7
`
		if diff := cmp.Diff(want, e.out); diff != "" {
			t.Errorf("-want, +got:\n%s", diff)
		}
		if !strings.Contains(e.err, "curl -x http://198.18.0.2:3128 --proxy-user alice https://example.org") {
			t.Errorf("no hint how to use it: %q", e.err)
		}
	})
}

func TestCreate_structuredHasAllFields(t *testing.T) {
	d := newDesk(t, "beelink").checked()
	var got map[string]any
	if err := json.Unmarshal([]byte(d.must(open("berlin-1", "-o", "json")...).out), &got); err != nil {
		t.Fatal(err)
	}
	delete(got, "createdAt")
	delete(got, "macs")
	delete(got, "uid")
	delete(got, "instanceName")
	want := map[string]any{
		"name": "berlin-1", "entry": "kvm2-home", "zone": "beelink", "machineType": "small", "image": "trixie",
		"id": idOf("kvm2-home", "beelink", "berlin-1"), "state": "Running", "address": "198.18.0.2",
		"addresses": []any{"198.18.0.2"}, "port": 3128.0, "proxyURL": "http://198.18.0.2:3128",
		"serving": true, "verified": true, "egressIP": egress,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestCreate_twiceMakesOneWithTheSameBytes(t *testing.T) {
	d := newDesk(t, "beelink")
	d.must(open("berlin-1")...)
	first := d.backend.Instances()
	d.must(open("berlin-1")...)
	d.must("create", "berlin-1", "-q") // flags that are left out are the recorded ones
	if diff := cmp.Diff(first, d.backend.Instances()); diff != "" {
		t.Errorf("creating again changed something: -first, +then:\n%s", diff)
	}
	if n := d.backend.Made(first[0].ID); n != 1 {
		t.Errorf("the instance was made %d times", n)
	}
}

func TestCreate_manyAtOnceMakeOne(t *testing.T) {
	d := newDesk(t, "beelink")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if e := d.run(open("berlin-1", "-o", "json")...); e.code != egressctl.CodeOK {
				t.Errorf("one of them ended with %d: %s", e.code, e.err)
			}
		})
	}
	wg.Wait()
	if got := d.backend.Instances(); len(got) != 1 || d.backend.Made(got[0].ID) != 1 {
		t.Errorf("%d instances stand there, want one that was made once", len(got))
	}
}

// A kill is the same as a provider that never answers: what was written before is all there is.
func TestCreate_recordIsWrittenBeforeTheProviderIsAsked(t *testing.T) {
	d := newDesk(t, "beelink")
	d.backend.Fail(fake.Create, 1, errors.New("killed here"))
	e := d.run(open("berlin-1")...)
	if e.code != egressctl.CodeTransient {
		t.Fatalf("exit code %d, want %d: %s", e.code, egressctl.CodeTransient, e.err)
	}
	before := d.read("state/instances/kvm2-home_berlin-1.json")

	d.must("create", "berlin-1", "-q")
	if diff := cmp.Diff(before, d.read("state/instances/kvm2-home_berlin-1.json")); diff != "" {
		t.Errorf("going on changed the record: -before, +after:\n%s", diff)
	}
	var record struct {
		UserData []byte `json:"userData"`
	}
	if err := json.Unmarshal([]byte(before), &record); err != nil {
		t.Fatal(err)
	}
	if got := d.backend.Instances()[0].CloudInit; string(got) != string(record.UserData) {
		t.Error("the provider got other user-data than was recorded before the first call")
	}
}

func TestCreate_finishesAfterAFailureOfEachStep(t *testing.T) {
	for _, step := range []fake.Call{fake.MakeDisk, fake.Define, fake.Start} {
		t.Run(string(step), func(t *testing.T) {
			d := newDesk(t, "beelink")
			d.backend.LoseAnswer(step, 1, errors.New("connection lost"))
			if e := d.run(open("berlin-1")...); e.code != egressctl.CodeTransient {
				t.Fatalf("exit code %d, want %d: %s", e.code, egressctl.CodeTransient, e.err)
			}
			d.must("create", "berlin-1", "-q")
			d.must("delete", "berlin-1")
			if i, disks := d.backend.Instances(), d.backend.Disks(); len(i)+len(disks) != 0 {
				t.Errorf("left behind: %v, %v", i, disks)
			}
		})
	}
}

func TestCreate_otherFlagsOnAnExistingInstanceAreRefused(t *testing.T) {
	d := newDesk(t, "beelink", "cedar")
	pass := d.write("pass", "open sesame\n")
	d.must("create", "berlin-1", "--zone", "beelink", "--auth-user", "alice", "--password-file", pass, "-q")
	other := d.write("other", "open barley\n")
	cases := map[string]struct {
		reason string
		args   []string
		says   string
	}{
		"Port":     {"the port is in the VM's configuration", []string{"--port", "8080"}, "--port 3128, not 8080"},
		"Zone":     {"the VM stands on another host", []string{"--zone", "cedar"}, "--zone beelink, not cedar"},
		"Sources":  {"opening it to more needs another VM", []string{"--allow-source", "10.0.0.0/8"}, "--allow-source none, not 10.0.0.0/8"},
		"User":     {"the VM knows one user", []string{"--auth-user", "bob"}, "--auth-user alice, not bob"},
		"Password": {"the VM has the hash of another password", []string{"--password-file", other}, "another password"},
		"Generate": {"a generated password would be another one", []string{"--generate-password"}, "another password"},
		"UserData": {"the VM has had its user-data", []string{"--user-data-file", other}, "other user-data"},
	}
	before := d.read("state/instances/kvm2-home_berlin-1.json")
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			e := d.run(append([]string{"create", "berlin-1"}, tc.args...)...)
			wantFailure(t, e, egressctl.CodePermanent, "kvm2-home, host beelink", "berlin-1 exists already", tc.says, "egressctl delete berlin-1")
			if strings.Contains(e.err, "sesame") || strings.Contains(e.err, "barley") {
				t.Errorf("a password is in the sentence: %q", e.err)
			}
		})
	}
	if diff := cmp.Diff(before, d.read("state/instances/kvm2-home_berlin-1.json")); diff != "" {
		t.Errorf("a refused create changed the record: -before, +after:\n%s", diff)
	}
	if n := len(d.backend.Instances()); n != 1 {
		t.Errorf("%d instances stand there, want one", n)
	}
}

func TestCreate_sameFlagsInAnotherSpellingAreTheSame(t *testing.T) {
	d := newDesk(t, "beelink")
	d.must("create", "berlin-1", "-q", "--allow-source", "198.51.100.7/24,192.0.2.1", "--allow-destination", "Example.org.,example.com")
	d.must("create", "berlin-1", "-q", "--allow-source", "192.0.2.1/32", "--allow-source", "198.51.100.0/24",
		"--allow-destination", "example.com", "--allow-destination", "example.org")
}

func TestCreate_otherFlagsCountWhenNothingWasMade(t *testing.T) {
	d := newDesk(t, "beelink", "cedar")
	d.backend.Limit("beelink", 0)
	e := d.run(open("berlin-1", "--zone", "beelink")...)
	wantFailure(t, e, egressctl.CodeQuota, "kvm2-home, host beelink")

	d.must("create", "berlin-1", "--zone", "cedar", "-q")
	got := d.backend.Instances()
	if len(got) != 1 || got[0].Zone != "cedar" {
		t.Errorf("the hosts have %v, want one instance on cedar", got)
	}
}

func TestCreate_otherFlagsAreRefusedInDoubt(t *testing.T) {
	d := newDesk(t, "beelink")
	d.must(open("berlin-1")...)
	d.backend.FailHost("beelink", fake.Unreachable())
	wantFailure(t, d.run(open("berlin-1", "--port", "8080")...), egressctl.CodeTransient, "kvm2-home, host beelink", "find out whether berlin-1 exists")
}

func TestCreate_startsAStoppedInstance(t *testing.T) {
	d := newDesk(t, "beelink")
	d.must(open("berlin-1")...)
	d.backend.Stop(idOf("kvm2-home", "beelink", "berlin-1"))
	d.must("create", "berlin-1", "-q")
	if got := d.backend.Instances(); !got[0].Running {
		t.Error("the instance is stopped still")
	}
}

func TestCreate_noWait(t *testing.T) {
	d := newDesk(t, "beelink")
	d.backend.HoldAddresses()
	e := d.must("create", "berlin-1", "--allow-source", "198.51.100.0/24", "--no-wait")
	if !strings.Contains(e.out, "Provisioning") || !strings.Contains(e.err, "egressctl get berlin-1 --entry kvm2-home") {
		t.Errorf("want the state as it is, and how to look again:\n%s%s", e.out, e.err)
	}
}

func TestCreate_ownUserDataGoesByteForByte(t *testing.T) {
	d := newDesk(t, "beelink")
	d.stdin = "#!/bin/sh\r\n\x00\xff no newline"
	d.checked().probe = func(o probe.Options) (probe.Result, error) {
		if o.Endpoint != "198.18.0.2:8118" || o.CheckURL != provider.CheckURLNone || o.User != "" {
			t.Errorf("the probe asks for %v as %q: nothing is known of the proxy but its port", o, o.User)
		}
		return probe.Result{}, nil
	}
	d.must("create", "berlin-1", "-q", "--user-data-file", "-", "--port", "8118")
	if got := string(d.backend.Instances()[0].CloudInit); got != d.stdin {
		t.Errorf("the provider got %q, want %q", got, d.stdin)
	}
	d.must("create", "berlin-1", "-q")
}

func TestCreate_stateThatCannotBeWrittenStopsItFirst(t *testing.T) {
	d := newDesk(t, "beelink")
	// A directory under the record's name: nobody can write there, root neither.
	if err := os.MkdirAll(d.recordPath("berlin-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, d.run(open("berlin-1")...), egressctl.CodeOther, "record")
	if n := d.backend.Calls(fake.Create); n != 0 {
		t.Errorf("the provider was asked %d times to create what could not be recorded", n)
	}
}

// read gives a file below the desk's directory.
func (d *desk) read(name string) string {
	d.t.Helper()
	data, err := os.ReadFile(filepath.Join(d.dir, name))
	if err != nil {
		d.t.Fatal(err)
	}
	return string(data)
}
