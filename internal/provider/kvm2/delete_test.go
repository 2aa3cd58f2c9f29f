package kvm2

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/digitalocean/go-libvirt"
	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

func (r *rig) mustDelete(t *testing.T) {
	t.Helper()
	if err := r.Delete(t.Context(), testID); err != nil {
		t.Fatalf("delete: %v", err)
	}
}

func TestDelete_malformedIDIsPermanent(t *testing.T) {
	r := newRig(t)
	for _, id := range []string{"", "beelink", "hosts/beelink/domains/", "hosts/beelink/volumes/x", "hosts/beelink/domains/a/b"} {
		wantErr(t, r.Delete(t.Context(), id), provider.ErrPermanent, provider.ReasonInvalidID)
	}
	if n := r.dialer.dialed("beelink"); n != 0 {
		t.Errorf("the host was dialled %d times", n)
	}
}

func TestDelete_twiceSucceeds(t *testing.T) {
	r := created(t)
	r.mustDelete(t)
	r.host.forget()
	r.mustDelete(t)
	wantUntouched(t, r)
}

func TestDelete_removesOverlayAndSeed(t *testing.T) {
	r := created(t)
	before := shared(r.host)
	r.mustDelete(t)
	wantNothing(t, r.host, "after delete", before)
	if diff := cmp.Diff(before, shared(r.host)); diff != "" {
		t.Errorf("base and marker must stay: -want, +got:\n%s", diff)
	}
}

func TestDelete_runningDomainDestroyedFirst(t *testing.T) {
	r := created(t)
	r.mustDelete(t)
	want := []string{
		"DomainDestroy " + testName, "DomainUndefineFlags " + testName,
		"StorageVolDelete " + overlayName(testName), "StorageVolDelete " + seedName(testName),
		"StorageVolDelete " + consoleLogName(testName),
	}
	if diff := cmp.Diff(want, writes(r.host.recorded())); diff != "" {
		t.Errorf("destructive steps: -want, +got:\n%s", diff)
	}
}

func TestDelete_everyState(t *testing.T) {
	for name, change := range map[string]func(*fakeDomain){
		"shut off":                 func(d *fakeDomain) { d.live, d.id, d.state = nil, -1, fakeShutoff },
		"paused":                   func(d *fakeDomain) { d.state = fakePaused },
		"crashed and kept":         func(d *fakeDomain) { d.state = fakeCrashed },
		"undefined while it ran":   func(d *fakeDomain) { d.config = nil },
		"managed save":             func(d *fakeDomain) { d.live, d.id, d.state, d.managedSave = nil, -1, fakeShutoff, true },
		"snapshots":                func(d *fakeDomain) { d.snapshots = true },
		"checkpoints":              func(d *fakeDomain) { d.checkpoints = true },
		"an admin's disk attached": func(d *fakeDomain) { d.live.Devices.Disks = append(d.live.Devices.Disks, d.live.Devices.Disks[0]) },
	} {
		t.Run(name, func(t *testing.T) {
			r := created(t)
			r.host.withDomain(testName, change)
			r.mustDelete(t)
			wantNothing(t, r.host, name, shared(r.host))
		})
	}
}

func TestDelete_olderLibvirtWithoutAFlag(t *testing.T) {
	for name, flags := range map[string]uint32{
		"no checkpoints":          uint32(libvirt.DomainUndefineCheckpointsMetadata),
		"no checkpoints or NVRAM": uint32(libvirt.DomainUndefineCheckpointsMetadata | libvirt.DomainUndefineNvram),
	} {
		t.Run(name, func(t *testing.T) {
			r := created(t)
			r.host.rejectFlags = flags
			r.host.withDomain(testName, func(d *fakeDomain) { d.nvram = flags&uint32(libvirt.DomainUndefineNvram) == 0 })
			r.mustDelete(t)
			wantNothing(t, r.host, name, shared(r.host))
		})
	}
}

func TestDelete_toleratesMissingVolumesAndPool(t *testing.T) {
	tests := map[string]struct {
		reason string
		change func(r *rig)
	}{
		"overlay": {reason: "an overlay that somebody removed is removed", change: func(r *rig) { r.removeVolume(overlayName(testName)) }},
		"seed":    {reason: "so is a seed", change: func(r *rig) { r.removeVolume(seedName(testName)) }},
		"both":    {reason: "and both", change: func(r *rig) { r.removeVolume(overlayName(testName)); r.removeVolume(seedName(testName)) }},
		"file is gone": {reason: "libvirt's listing may be older than the directory", change: func(r *rig) {
			r.host.withVolume(testPool, overlayName(testName), func(v *fakeVolume) { v.gone = true })
		}},
		"pool":           {reason: "a pool that libvirt does not know has no volumes of ours", change: func(r *rig) { r.host.removePool(testPool) }},
		"domain":         {reason: "volumes are found by name without the domain", change: func(r *rig) { r.host.removeDomain(testName) }},
		"all but a seed": {reason: "in any combination", change: func(r *rig) { r.host.removeDomain(testName); r.removeVolume(overlayName(testName)) }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := created(t)
			tc.change(r)
			if err := r.Delete(t.Context(), testID); err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if names := r.host.domainNames(); len(names) != 0 {
				t.Errorf("%s: domains are left: %v", tc.reason, names)
			}
			if name != "pool" {
				wantNothing(t, r.host, tc.reason, shared(r.host))
			}
		})
	}
}

func (r *rig) removeVolume(name string) {
	r.host.withPool(testPool, func(p *fakePool) {
		p.volumes = slices.DeleteFunc(p.volumes, func(v *fakeVolume) bool { return v.name == name })
	})
}

// An inactive pool still has its files: nil would let a caller forget them.
func TestDelete_inactivePoolIsNoProof(t *testing.T) {
	r := created(t)
	r.host.withPool(testPool, func(p *fakePool) { p.state = fakePoolInactive })
	err := r.Delete(t.Context(), testID)
	wantErr(t, err, provider.ErrTransient, provider.ReasonPoolNotActive)
	if err == nil || !strings.Contains(err.Error(), testPool) {
		t.Errorf("error %v does not name the pool", err)
	}
	r.host.withPool(testPool, func(p *fakePool) { p.state = fakePoolRunning })
	r.mustDelete(t)
	wantNothing(t, r.host, "once the pool is active", shared(r.host))
}

func TestDelete_unconfiguredHostIsNoOp(t *testing.T) {
	r := newRig(t)
	if err := r.Delete(t.Context(), "hosts/elsewhere/domains/"+testName); err != nil {
		t.Errorf("delete: %v", err)
	}
	if n := r.dialer.dialed("beelink"); n != 0 {
		t.Errorf("a host was dialled %d times", n)
	}
}

func TestDelete_concurrentSameNameSafe(t *testing.T) {
	r := created(t)
	var calls sync.WaitGroup
	for i := range 20 {
		calls.Go(func() {
			if i%2 == 0 {
				if err := r.Delete(t.Context(), testID); err != nil {
					t.Errorf("delete: %v", err)
				}
				return
			}
			if _, err := r.Create(t.Context(), testRequest()); err != nil {
				t.Errorf("create: %v", err)
			}
		})
	}
	calls.Wait()
	switch names := r.host.domainNames(); len(names) {
	case 0:
		wantNothing(t, r.host, "a delete came last", shared(r.host))
	default:
		wantOneInstance(t, r.host, "a create came last", shared(r.host))
	}
}

// Two processes: one finds in the middle that the other was faster.
func TestDelete_byTwoProcesses(t *testing.T) {
	for _, method := range []string{"DomainDestroy", "DomainUndefineFlags", "StorageVolDelete"} {
		t.Run(method, func(t *testing.T) {
			r := created(t)
			other := rigOn(t, r.host)
			r.host.arm(fault{method: method, nth: 1, hook: func() {
				r.host.disarm()
				if err := other.Delete(t.Context(), testID); err != nil {
					t.Errorf("the other process: %v", err)
				}
			}})
			r.mustDelete(t)
			wantNothing(t, r.host, method, shared(r.host))
		})
	}
}

// The kill fails while the guest hangs in the kernel: its disks must not go.
func TestDelete_domainThatDoesNotEndKeepsItsDisks(t *testing.T) {
	r := created(t)
	r.host.arm(fault{method: "DomainDestroy", err: virErr(libvirt.ErrSystemError, "Failed to terminate process 42 with SIGKILL: Device or resource busy")})
	for range 5 {
		if err := r.Delete(t.Context(), testID); !errors.Is(err, provider.ErrTransient) {
			t.Errorf("delete gives %v, want Transient", err)
		}
	}
	for _, call := range writes(r.host.recorded()) {
		if !strings.HasPrefix(call, "DomainDestroy") {
			t.Errorf("%s before the domain was known not to run", call)
		}
	}
	r.host.disarm()
	r.mustDelete(t)
	wantNothing(t, r.host, "once it ends", shared(r.host))
}

// A destroy that is said to work while the domain goes on is not believed.
func TestDelete_destroyThatChangesNothingIsNotBelieved(t *testing.T) {
	r := created(t)
	r.host.arm(fault{method: "DomainDestroy", err: virErr(libvirt.ErrOperationInvalid, "Requested operation is not valid: domain is not running")})
	wantErr(t, r.Delete(t.Context(), testID), provider.ErrTransient, reasonBusy)
	if diff := cmp.Diff(startedVolumes(), own(r.host)); diff != "" {
		t.Errorf("volumes of a running domain: -want, +got:\n%s", diff)
	}
}

// The mark is read again before each destructive step: whatever comes to stand under the name in the
// meantime is not touched.
func TestDelete_markIsReadBeforeEachStep(t *testing.T) {
	marks := map[string]*mark{"no": nil, "another owner's": {Managed: true, UID: otherUID, Owner: "installation-b", Ref: "egress/berlin-1"}}
	for _, method := range []string{"DomainDestroy", "DomainUndefineFlags", "StorageVolDelete"} {
		for whose, theirs := range marks {
			t.Run(whose+" mark after "+method, func(t *testing.T) {
				r := created(t)
				replaced := false
				r.host.arm(fault{method: method, nth: 1, after: true}, fault{method: "DomainLookupByName", hook: func() {
					if !replaced && r.host.count(method) == 1 {
						replaced = true
						r.host.removeDomain(testName)
						r.host.addDomain(markedXML(t, testName, otherUID, theirs), false)
					}
				}})
				wantErr(t, r.Delete(t.Context(), testID), provider.ErrPermanent, provider.ReasonNotOurs)
				if diff := cmp.Diff([]string{testName}, r.host.domainNames()); diff != "" {
					t.Errorf("the foreign domain: -want, +got:\n%s", diff)
				}
			})
		}
	}
}

func TestDelete_removesOnlyItsOwnVolumes(t *testing.T) {
	r := created(t)
	others := []string{
		testName + "0.qcow2", testName + "0-seed.iso", testName + "-backup.qcow2", testName + ".qcow2.bak",
		seedName(testName) + ".qcow2", testName, "x" + overlayName(testName),
	}
	for _, name := range others {
		r.host.addVolume(testPool, name, []byte("theirs"))
	}
	r.mustDelete(t)
	for _, name := range others {
		if !slices.Contains(r.host.volumeNames(testPool), name) {
			t.Errorf("%s is gone", name)
		}
	}
}

// The domain was renamed by hand: its disks bear the name of an instance that is gone.
func TestDelete_volumeOfARenamedDomainIsLeftAlone(t *testing.T) {
	r := created(t)
	r.host.withDomain(testName, func(d *fakeDomain) {
		d.name, d.config.Name, d.live.Name = "kept-by-hand", "kept-by-hand", "kept-by-hand"
	})
	wantErr(t, r.Delete(t.Context(), testID), provider.ErrPermanent, provider.ReasonNotOurs)
	if diff := cmp.Diff(startedVolumes(), own(r.host)); diff != "" {
		t.Errorf("volumes of a running domain: -want, +got:\n%s", diff)
	}
}

func TestDelete_failedStepIsAnError(t *testing.T) {
	clean := created(t)
	clean.mustDelete(t)
	for k, call := range clean.host.recorded() {
		t.Run(fmt.Sprint(k+1, call), func(t *testing.T) {
			r := created(t)
			r.host.arm(fault{nth: k + 1, err: virErr(libvirt.ErrInternalError, "no")})
			if err := r.Delete(t.Context(), testID); !errors.Is(err, provider.ErrTransient) {
				t.Errorf("delete gives %v although %v fails, want Transient", err, call)
			}
		})
	}
}

func TestDelete_resumesAfterEachPartialStep(t *testing.T) {
	clean := created(t)
	clean.mustDelete(t)
	total := len(clean.host.recorded())
	for name, ending := range endings() {
		t.Run(name, func(t *testing.T) {
			for k := 1; k <= total; k++ {
				r := created(t)
				before := shared(r.host)
				cut := ending
				cut.nth = k
				r.host.arm(cut)
				err := r.Delete(t.Context(), testID)
				r.host.disarm()
				at := fmt.Sprintf("after call %d (%v, first error %v)", k, r.host.recorded()[k-1], err)
				if err := rigOn(t, r.host).Delete(t.Context(), testID); err != nil {
					t.Errorf("%s: %v", at, err)
				}
				wantNothing(t, r.host, at, before)
				if diff := cmp.Diff(before, shared(r.host)); diff != "" {
					t.Errorf("%s: shared volumes: -want, +got:\n%s", at, diff)
				}
			}
		})
	}
}

// Half of a create is deleted while it is still going on: the delete waits and removes what it made.
func TestDelete_waitsForACreateOfTheName(t *testing.T) {
	r := newRig(t)
	reached, goOn := make(chan struct{}), make(chan struct{})
	r.host.arm(fault{method: "DomainDefineXML", entered: reached, block: goOn})
	var calls sync.WaitGroup
	calls.Go(func() {
		if _, err := r.Create(t.Context(), testRequest()); err != nil {
			t.Errorf("create: %v", err)
		}
	})
	<-reached
	calls.Go(func() {
		if err := r.Delete(t.Context(), testID); err != nil {
			t.Errorf("delete: %v", err)
		}
	})
	close(goOn)
	calls.Wait()
	wantNothing(t, r.host, "create, then delete", shared(r.host))
}
