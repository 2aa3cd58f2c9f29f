package egressctl_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/fake"
)

// twoEntries is a desk with kvm2-home (beelink, cedar) and kvm2-lab (aspen).
func twoEntries(t *testing.T) *desk {
	t.Helper()
	d := newDesk(t, "beelink", "cedar")
	d.write("providers.yaml", d.read("providers.yaml")+entry("kvm2-lab", "aspen"))
	return d
}

func TestList_table(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := twoEntries(t)
		d.must(open("berlin-2", "--entry", "kvm2-home", "--zone", "cedar")...)
		pass(3 * time.Hour)
		d.must(open("berlin-1", "--entry", "kvm2-home", "--zone", "beelink", "--no-wait")...)
		d.must(open("oslo-1", "--entry", "kvm2-lab")...)
		d.backend.Fail(fake.Create, 1, errors.New("killed here"))
		d.run(open("oslo-2", "--entry", "kvm2-lab")...)
		d.backend.Stop(idOf("kvm2-home", "beelink", "berlin-1"))
		// Somebody else's instance is none of ours.
		d.backend.Plant(fake.Planted{Zone: "beelink", Name: "theirs", Owner: "another", UID: "x", Ref: "egressctl/theirs"})
		pass(time.Minute)

		want := `NAME       STATE      ADDRESS      ZONE      ENTRY       AGE   ID
berlin-1   Stopped    -            beelink   kvm2-home   60s   ` + idOf("kvm2-home", "beelink", "berlin-1") + `
berlin-2   Running    198.18.0.2   cedar     kvm2-home   3h    ` + idOf("kvm2-home", "cedar", "berlin-2") + `
oslo-1     Running    198.18.0.4   aspen     kvm2-lab    60s   ` + idOf("kvm2-lab", "aspen", "oslo-1") + `
oslo-2     Recorded   -            aspen     kvm2-lab    -     ` + idOf("kvm2-lab", "aspen", "oslo-2") + `
`
		if diff := cmp.Diff(want, d.must("list").out); diff != "" {
			t.Errorf("-want, +got:\n%s", diff)
		}
		if got := d.must("ls", "--entry", "kvm2-lab").out; strings.Contains(got, "berlin") || !strings.Contains(got, "oslo-1") {
			t.Errorf("--entry kvm2-lab lists:\n%s", got)
		}
	})
}

func TestList_anEntryThatCannotBeListedIsSaid(t *testing.T) {
	d := twoEntries(t)
	d.must(open("berlin-1", "--entry", "kvm2-home", "--zone", "beelink")...)
	d.must(open("oslo-1", "--entry", "kvm2-lab")...)
	d.backend.FailHost("cedar", fake.Unreachable())
	e := d.run("list", "-o", "json")
	if e.code != egressctl.CodeTransient {
		t.Errorf("exit code %d, want %d: a list that lacks an entry is no success", e.code, egressctl.CodeTransient)
	}
	if !strings.HasPrefix(e.err, "egressctl: kvm2-home: list: ") || !strings.Contains(e.err, "cedar") {
		t.Errorf("the sentence does not name entry and host: %q", e.err)
	}
	var got struct {
		Instances []struct{ Name string }
		Errors    []struct{ Entry string }
	}
	if err := json.Unmarshal([]byte(e.out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Instances) != 1 || got.Instances[0].Name != "oslo-1" || len(got.Errors) != 1 || got.Errors[0].Entry != "kvm2-home" {
		t.Errorf("want the other entry's instance, and the error beside it, not a Recorded state for what may well run: %+v", got)
	}
}

func TestList_emptyIsAnEmptyListForScripts(t *testing.T) {
	d := newDesk(t, "beelink")
	want := "{\n  \"instances\": [],\n  \"errors\": []\n}\n"
	if diff := cmp.Diff(want, d.must("list", "-o", "json").out); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if diff := cmp.Diff("errors: []\ninstances: []\n", d.must("list", "-o", "yaml").out); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestGet_withTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "beelink")
		d.must(open("berlin-1")...)
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
Proxy URL:     http://198.18.0.2:3128
`
		if diff := cmp.Diff(want, d.must("get", "berlin-1").out); diff != "" {
			t.Errorf("-want, +got:\n%s", diff)
		}
	})
}

func TestGet_withoutTheRecord(t *testing.T) {
	d := newDesk(t, "beelink", "cedar")
	d.must(open("berlin-1", "--zone", "cedar")...)
	d.lose("berlin-1")
	if got := d.must("get", "berlin-1").out; !strings.Contains(got, idOf("kvm2-home", "cedar", "berlin-1")) {
		t.Errorf("it was not found where it stands:\n%s", got)
	}
}

func TestGet_notThere(t *testing.T) {
	d := newDesk(t, "beelink", "cedar")
	wantFailure(t, d.run("get", "berlin-1"), egressctl.CodeNotFound, "kvm2-home: there is no instance berlin-1")
	// As long as one host cannot say, nobody knows.
	d.backend.FailHost("cedar", fake.Unreachable())
	wantFailure(t, d.run("get", "berlin-1"), egressctl.CodeTransient, "kvm2-home, host cedar")
}
