package egressctl_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/fake"
)

// recordPath of an instance of kvm2-home.
func (d *desk) recordPath(name string) string {
	return filepath.Join(d.dir, "state/instances/kvm2-home_"+name+".json")
}

// lose removes the record of an instance of kvm2-home.
func (d *desk) lose(name string) {
	d.t.Helper()
	if err := os.Remove(d.recordPath(name)); err != nil {
		d.t.Fatal(err)
	}
}

// wantNothing checks that neither the hosts nor the state directory have anything left.
func (d *desk) wantNothing() {
	d.t.Helper()
	if i, disks := d.backend.Instances(), d.backend.Disks(); len(i)+len(disks) != 0 {
		d.t.Errorf("left on the hosts: instances %v, disks %v", i, disks)
	}
	for _, sub := range []string{"instances", "locks"} {
		left, err := os.ReadDir(filepath.Join(d.dir, "state", sub))
		if err != nil || len(left) != 0 {
			d.t.Errorf("left in %s: %v (%v)", sub, left, err)
		}
	}
}

func TestDelete_thenAgain(t *testing.T) {
	d := newDesk(t, "beelink", "cedar")
	d.must(open("berlin-1", "--zone", "cedar")...)
	want := "kvm2-home: deleted berlin-1 (" + idOf("kvm2-home", "cedar", "berlin-1") + ")\n"
	if diff := cmp.Diff(want, d.must("delete", "berlin-1", "-q").out); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	d.wantNothing()
	if diff := cmp.Diff("kvm2-home: berlin-1 was not there\n", d.must("delete", "berlin-1", "-q").out); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestDelete_structured(t *testing.T) {
	d := newDesk(t, "beelink")
	d.must(open("berlin-1")...)
	want := "deleted:\n- " + idOf("kvm2-home", "beelink", "berlin-1") + "\nentry: kvm2-home\nforgotten: true\nname: berlin-1\n"
	if diff := cmp.Diff(want, d.must("delete", "berlin-1", "-o", "yaml").out); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestDelete_withoutTheRecord(t *testing.T) {
	d := newDesk(t, "beelink", "cedar")
	d.must(open("berlin-1", "--zone", "cedar")...)
	d.lose("berlin-1")
	if e := d.must("delete", "berlin-1", "-q"); !strings.Contains(e.out, "deleted berlin-1") {
		t.Errorf("it says %q, want that it deleted", e.out)
	}
	d.wantNothing()
}

// bare is a provider without any optional interface.
type bare struct{ provider.Provider }

func TestDelete_withoutTheRecordAndWithoutIdentifier(t *testing.T) {
	d := newDesk(t, "beelink", "cedar")
	d.wrap = func(p *fake.Provider) provider.Provider { return bare{p} }
	d.must(open("berlin-1", "--zone", "cedar")...)
	d.lose("berlin-1")
	d.must("delete", "berlin-1", "-q")
	d.wantNothing()
}

func TestDelete_sweepsTheDiskOfAHalfMadeInstance(t *testing.T) {
	for _, record := range []string{"Kept", "Lost"} {
		t.Run(record, func(t *testing.T) {
			d := newDesk(t, "beelink", "cedar")
			d.backend.Fail(fake.Define, 1, errors.New("killed here"))
			d.run(open("berlin-1", "--zone", "cedar")...)
			if len(d.backend.Disks()) != 1 {
				t.Fatal("the test's create left no disk")
			}
			if record == "Lost" {
				d.lose("berlin-1")
			}
			d.must("delete", "berlin-1", "-q")
			d.wantNothing()
		})
	}
}

func TestDelete_keepsTheRecordUntilItIsDone(t *testing.T) {
	d := newDesk(t, "beelink")
	d.must(open("berlin-1")...)
	d.backend.FailHost("beelink", fake.Unreachable())
	wantFailure(t, d.run("delete", "berlin-1", "-q"), egressctl.CodeTransient, "kvm2-home, host beelink: delete berlin-1")
	d.read("state/instances/kvm2-home_berlin-1.json")
	d.backend.FailHost("beelink", nil)
	d.must("delete", "berlin-1", "-q")
	d.wantNothing()
}

func TestDelete_leavesOthersAlone(t *testing.T) {
	d := newDesk(t, "beelink")
	id := idOf("kvm2-home", "beelink", "berlin-1")
	name := id[strings.LastIndexByte(id, '/')+1:]
	d.backend.Plant(fake.Planted{Zone: "beelink", Name: name, Owner: "another", UID: "x", Ref: "egressctl/berlin-1"})
	wantFailure(t, d.run("delete", "berlin-1", "-q"), egressctl.CodePermanent, "kvm2-home, host beelink", "not ours")
	if n := len(d.backend.Instances()); n != 1 {
		t.Errorf("%d instances stand there, want the other owner's", n)
	}
}

func TestDelete_hostThatIsNotConfiguredAnyMore(t *testing.T) {
	d := newDesk(t, "beelink", "cedar")
	d.must(open("berlin-1", "--zone", "cedar")...)
	d.write("providers.yaml", "checkURL: none\nproviders:\n"+entry("kvm2-home", "beelink"))
	e := d.run("delete", "berlin-1", "-q")
	wantFailure(t, e, egressctl.CodePermanent, "kvm2-home, host cedar", "--forget")
	d.read("state/instances/kvm2-home_berlin-1.json")

	d.must("delete", "berlin-1", "--forget")
	if _, err := os.Stat(d.recordPath("berlin-1")); err == nil {
		t.Error("the record is still there")
	}
	if n := len(d.backend.Instances()); n != 1 {
		t.Errorf("%d instances: --forget must touch no host", n)
	}
}

func TestDelete_forgetWorksWhenTheEntryIsGone(t *testing.T) {
	d := newDesk(t, "beelink")
	d.must(open("berlin-1")...)
	d.write("providers.yaml", "checkURL: none\nproviders:\n"+entry("other", "cedar"))
	d.must("delete", "berlin-1", "--forget")
}

func TestDelete_forgetSaysWhenNothingWasRecorded(t *testing.T) {
	d := newDesk(t, "beelink")
	if e := d.must("delete", "berlin-1", "--forget"); !strings.Contains(e.out, "nothing is recorded of berlin-1") {
		t.Errorf("without an entry it says %q", e.out)
	}
	e := d.must("delete", "berlin-1", "--forget", "--entry", "kvm2-home", "-o", "json")
	if !strings.Contains(e.out, `"forgotten": false`) {
		t.Errorf("a script is told that something was forgotten: %s", e.out)
	}
}

func TestDelete_waitsForACreateOfTheSameInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "beelink")
		gate := d.backend.Block(fake.Start)
		created := make(chan ended)
		go func() { created <- d.run(open("berlin-1", "--no-wait")...) }()
		<-gate.Arrived()
		go func() {
			pass(10 * time.Second)
			gate.Open()
		}()
		e := d.must("delete", "berlin-1")
		if !strings.Contains(e.err, "Another egressctl works on berlin-1") {
			t.Errorf("it does not say what it waits for: %q", e.err)
		}
		<-created // whether its last look came before the delete is open
		d.wantNothing()
	})
}

func TestDelete_givesUpWaitingForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "beelink")
		gate := d.backend.Block(fake.Start)
		created := make(chan ended)
		go func() { created <- d.run(open("berlin-1", "--no-wait")...) }()
		<-gate.Arrived()
		wantFailure(t, d.run("delete", "berlin-1", "--timeout", "30s", "-q"), egressctl.CodeTransient, "kvm2-home", "another egressctl")
		gate.Open()
		<-created
	})
}
