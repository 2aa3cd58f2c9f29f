package egressctl_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/conformance"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/fake"
)

// wantNothingLeft checks that the hosts are as they were: empty.
func wantNothingLeft(t *testing.T, d *desk) {
	t.Helper()
	if got := d.backend.Instances(); len(got) != 0 {
		t.Errorf("%d instances are left: %+v", len(got), got)
	}
	if got := d.backend.Disks(); len(got) != 0 {
		t.Errorf("disks are left: %q", got)
	}
}

func TestConformance_printsEachRuleAndLeavesNothing(t *testing.T) {
	d := newDesk(t, "beelink", "nuc")
	e := d.must("conformance", "--entry", "kvm2-home", "--zone", "nuc", "-q")
	for _, want := range []string{"R2.2.2    passed", "R2.4.1    passed", "kvm2-home, type kvm2, on nuc", "0 failed"} {
		if !strings.Contains(e.out, want) {
			t.Errorf("the table does not say %q:\n%s", want, e.out)
		}
	}
	wantNothingLeft(t, d)
}

func TestConformance_anotherHostThatIsDownDoesNotCount(t *testing.T) {
	d := newDesk(t, "beelink", "nuc")
	d.backend.FailHost("beelink", fake.Unreachable())
	d.must("conformance", "--entry", "kvm2-home", "--zone", "nuc", "-q")
}

func TestConformance_brokenRuleIsTold(t *testing.T) {
	d := newDesk(t, "beelink")
	d.wrap = func(p *fake.Provider) provider.Provider { return notFoundTwice{p} }
	e := d.run("conformance", "-q", "-o", "json")
	if e.code != egressctl.CodeNotReady || !strings.Contains(e.err, "R2.4.2") {
		t.Errorf("exit code %d and %q, want %d and the rule R2.4.2", e.code, e.err, egressctl.CodeNotReady)
	}
	var report conformance.Report
	if err := json.Unmarshal([]byte(e.out), &report); err != nil {
		t.Fatal(err)
	}
	if got := report.With(conformance.Failed); len(got) == 0 || report.Made == 0 {
		t.Errorf("the report has %d instances and the broken rules %q", report.Made, got)
	}
	wantNothingLeft(t, d)
}

// notFoundTwice gives NotFound when nothing is there to delete.
type notFoundTwice struct{ *fake.Provider }

func (p notFoundTwice) Delete(ctx context.Context, id string) error {
	_, there := p.Backend().Look(id)
	err := p.Provider.Delete(ctx, id)
	if err == nil && !there {
		return provider.Wrap("kvm2-home", provider.Errorf(provider.ErrNotFound, provider.ReasonNotFound, "nothing is there"))
	}
	return err
}

func TestConformance_interruptedCleansUp(t *testing.T) {
	d := newDesk(t, "beelink")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	gate := d.backend.Block(fake.Start)
	go func() {
		<-gate.Arrived() // an instance stands and does not run yet
		interrupt()
		gate.Open()
	}()
	e := d.runIn(ctx, "conformance", "-q")
	if e.code != egressctl.CodeInterrupted || !strings.Contains(e.err, "removed") {
		t.Errorf("exit code %d and %q, want %d and that what was made is removed", e.code, e.err, egressctl.CodeInterrupted)
	}
	wantNothingLeft(t, d)
}
