//go:build integration

package ctl_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

func unchanged(*provider.KVMConfig) {}

// idOf reads the ID of an instance with egressctl get.
func idOf(t *testing.T, u user, name string) string {
	t.Helper()
	var v struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal([]byte(u.must(t, "get", name, "-o", "json").stdout), &v); err != nil {
		t.Fatal(err)
	}
	return v.ID
}

func TestCreate_twiceMakesOneVM(t *testing.T) {
	l := theLab(t)
	pool := l.pool(t, 0)
	u := l.newUser(t, pool, l.tinyImage(t), unchanged)

	u.must(t, create("twice-1")...)
	first, volumes := idOf(t, u, "twice-1"), l.volumes(t, pool)
	u.must(t, create("twice-1")...)
	u.must(t, "create", "twice-1", "--no-wait")
	if second := idOf(t, u, "twice-1"); second != first {
		t.Errorf("the second create gave the ID %s, want %s", second, first)
	}
	if got := l.domains(t, pool); len(got) != 1 {
		t.Errorf("the host has %v, want one domain", got)
	}
	if diff := cmp.Diff(volumes, l.volumes(t, pool)); diff != "" {
		t.Errorf("the second create changed the volumes: -first, +second:\n%s", diff)
	}

	u.must(t, "delete", "twice-1")
	checkOnlyImageLeft(t, l, pool)
	if e := u.must(t, "delete", "twice-1"); !strings.Contains(e.stdout, "was not there") {
		t.Errorf("the second delete says %q, want that it was not there", e.stdout)
	}
}

func TestCreate_manyAtOnceMakeOneVM(t *testing.T) {
	l := theLab(t)
	pool := l.pool(t, 0)
	u := l.newUser(t, pool, l.tinyImage(t), unchanged)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			if e := u.run(ctx, t, create("many-1")...); e.code != 0 {
				t.Errorf("one of them ended with %d: %s", e.code, e.stderr)
			}
		})
	}
	wg.Wait()
	if got := l.domains(t, pool); len(got) != 1 {
		t.Errorf("the host has %v, want one domain", got)
	}
	u.must(t, "delete", "many-1")
	checkOnlyImageLeft(t, l, pool)
}

func TestDelete_withoutTheRecord(t *testing.T) {
	l := theLab(t)
	pool := l.pool(t, 0)
	u := l.newUser(t, pool, l.tinyImage(t), unchanged)
	u.must(t, create("lost-1")...)
	if err := os.RemoveAll(u.state + "/instances"); err != nil {
		t.Fatal(err)
	}
	u.must(t, "delete", "lost-1")
	if got := l.domains(t, pool); len(got) != 0 {
		t.Errorf("the domains %v are left", got)
	}
	checkOnlyImageLeft(t, l, pool)
}

// kills is how many moments of a create are tried.
const kills = 16

// TestCreate_killedAtAnyMomentEndsWithOneVM kills creates at moments spread over a whole one, image
// transfer included, and runs each again.
func TestCreate_killedAtAnyMomentEndsWithOneVM(t *testing.T) {
	l := theLab(t)
	pool := l.pool(t, 0)
	img := l.tinyImage(t)
	u := l.newUser(t, pool, img, func(c *provider.KVMConfig) {
		setURL(l.url(img, "fault/slow/1000000/"))(t, c) // about two seconds for the image
	})
	whole := u.must(t, create("killed-0")...).took
	u.must(t, "delete", "killed-0")
	t.Logf("a whole create takes %v", whole)

	for i := range kills {
		if i%2 == 0 { // every second one finds no image
			clearPool(t, l, pool)
		}
		moment := whole * time.Duration(i+1) / kills
		killed := killAfter(t, u, moment, create("killed-1")...)
		u.must(t, create("killed-1")...)
		domains, volumes := l.domains(t, pool), l.volumes(t, pool)
		if len(domains) != 1 || len(volumes) != 5 {
			t.Errorf("killed after %v (%s), then run again: domains %v, volumes %v; want one domain, and base, marker, overlay, seed and console log",
				moment, killed, domains, volumes)
		}
		u.must(t, "delete", "killed-1")
		checkOnlyImageLeft(t, l, pool)
	}
}

// TestDelete_afterAKilledCreateLeavesTheImageOnly deletes what a killed create left, without a second
// create.
func TestDelete_afterAKilledCreateLeavesTheImageOnly(t *testing.T) {
	l := theLab(t)
	pool := l.pool(t, 0)
	u := l.newUser(t, pool, l.tinyImage(t), unchanged)
	whole := u.must(t, create("half-0")...).took
	u.must(t, "delete", "half-0")
	for i := range kills / 2 {
		moment := whole * time.Duration(i+1) / (kills / 2)
		killed := killAfter(t, u, moment, create("half-1")...)
		u.must(t, "delete", "half-1")
		if got := l.domains(t, pool); len(got) != 0 {
			t.Errorf("killed after %v (%s), then deleted: the domains %v are left", moment, killed, got)
		}
		checkOnlyImageLeft(t, l, pool)
	}
}

func TestCreate_interruptedSaysHowToGoOn(t *testing.T) {
	l := theLab(t)
	pool := l.pool(t, 0)
	img := l.tinyImage(t)
	u := l.newUser(t, pool, img, func(c *provider.KVMConfig) {
		setURL(l.url(img, "fault/stall/1000000/"))(t, c)
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	e := u.signal(ctx, t, syscall.SIGTERM, 3*time.Second, create("stopped-1")...)
	if e.code != egressctl.CodeInterrupted {
		t.Errorf("exit code %d, want %d", e.code, egressctl.CodeInterrupted)
	}
	for _, part := range []string{"interrupted", "egressctl create stopped-1 --entry kvm2-lab", "egressctl delete stopped-1 --entry kvm2-lab"} {
		if !strings.Contains(e.stderr, part) {
			t.Errorf("standard error does not say %q:\n%s", part, e.stderr)
		}
	}
	if e.took > 5*time.Second {
		t.Errorf("it ended %v after its start, want within two seconds of the signal", e.took)
	}
	u.must(t, "delete", "stopped-1")
	if left := l.volumes(t, pool); len(left) != 0 {
		t.Errorf("after an interrupted transfer and a delete the pool has %v, want nothing", left)
	}
}

// killAfter runs egressctl, kills it at the moment, and says what became of it.
func killAfter(t *testing.T, u user, moment time.Duration, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), moment)
	defer cancel()
	if e := u.run(ctx, t, args...); e.code == 0 {
		return "it was done by then"
	}
	return "it was under way"
}

// checkOnlyImageLeft wants base and marker in the pool, or nothing yet.
func checkOnlyImageLeft(t *testing.T, l lab, pool string) {
	t.Helper()
	left := l.volumes(t, pool)
	for _, v := range left {
		if strings.HasPrefix(v, "proxy-") {
			t.Errorf("the volume %s of a deleted instance is left", v)
		}
	}
	markers := 0
	for _, v := range left {
		if strings.HasSuffix(v, ".ok") {
			markers++
		}
	}
	if len(left) != 2*markers || markers > 1 {
		t.Errorf("the pool has %v, want base and marker only", left)
	}
}

// clearPool removes what a pool has, the image too.
func clearPool(t *testing.T, l lab, pool string) {
	t.Helper()
	for _, v := range l.volumes(t, pool) {
		l.virsh(t, "vol-delete", "--pool", pool, v)
	}
}
