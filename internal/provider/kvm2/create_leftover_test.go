package kvm2

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// leaveVolumes ends a create after its volumes were made.
func leaveVolumes(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.host.arm(fault{method: "DomainDefineXML", nth: 1, drop: true})
	if _, err := r.Create(t.Context(), testRequest()); err == nil {
		t.Fatal("the create must be cut off")
	}
	r.host.disarm()
	if diff := cmp.Diff(bothVolumes(), own(r.host)); diff != "" {
		t.Fatalf("left volumes: -want, +got:\n%s", diff)
	}
	return r
}

func TestCreate_usedOverlayIsReplaced(t *testing.T) {
	r := leaveVolumes(t)
	r.host.withVolume(testPool, overlayName(testName), func(v *fakeVolume) { v.allocation = 300 << 20 })
	r.mustCreate(t, testRequest())
	r.host.withVolume(testPool, overlayName(testName), func(v *fakeVolume) {
		if v.allocation != fakeOverlayBytes {
			t.Errorf("the overlay takes %d bytes: an earlier guest's disk was taken over", v.allocation)
		}
	})
}

func TestCreate_overlayOfAnotherSizeOrBaseIsReplaced(t *testing.T) {
	for name, change := range map[string]func(*fakeVolume){
		"size":   func(v *fakeVolume) { v.capacity /= 2 },
		"base":   func(v *fakeVolume) { v.backing.Path = "/srv/vms/images/older" },
		"format": func(v *fakeVolume) { v.format = "raw" },
		"gone":   func(v *fakeVolume) { v.gone = true },
	} {
		t.Run(name, func(t *testing.T) {
			r := leaveVolumes(t)
			var want fakeVolume
			r.host.withVolume(testPool, overlayName(testName), func(v *fakeVolume) {
				want = *v
				backing := *v.backing
				want.backing = &backing
				change(v)
			})
			r.mustCreate(t, testRequest())
			r.host.withVolume(testPool, overlayName(testName), func(v *fakeVolume) {
				if v.capacity != want.capacity || v.backing.Path != want.backing.Path || v.format != want.format || v.gone {
					t.Errorf("overlay %+v, want one like %+v", *v, want)
				}
			})
		})
	}
}

func TestCreate_volumeThatADomainUsesIsLeftAlone(t *testing.T) {
	for _, volume := range bothVolumes() {
		t.Run(volume, func(t *testing.T) {
			r := leaveVolumes(t)
			r.host.addDomain(fakeDomainXML("renamed-by-hand", otherUID, "", "/srv/vms/images/"+volume), true)
			r.host.forget()
			_, err := r.Create(t.Context(), testRequest())
			wantErr(t, err, provider.ErrPermanent, provider.ReasonNotOurs)
			if err == nil || !strings.Contains(err.Error(), "renamed-by-hand") {
				t.Errorf("error %v does not name the domain", err)
			}
			for _, call := range writes(r.host.recorded()) {
				if strings.HasSuffix(call, " "+volume) && !strings.HasPrefix(call, "StorageVolCreateXML") {
					t.Errorf("a volume that a running domain uses was touched: %s", call)
				}
			}
			if diff := cmp.Diff(true, strings.Contains(strings.Join(own(r.host), " "), volume)); diff != "" {
				t.Errorf("the volume is gone: -want, +got:\n%s", diff)
			}
		})
	}
}

// A domain that cannot be read may be the one that uses the volume.
func TestCreate_leftoverWithAnUnreadableDomainIsADoubt(t *testing.T) {
	r := leaveVolumes(t)
	r.host.addDomain(fakeDomainXML("odd", otherUID, ""), true)
	r.host.withDomain("odd", func(d *fakeDomain) { d.rawXML = "<domain" })
	_, err := r.Create(t.Context(), testRequest())
	if !errors.Is(err, provider.ErrTransient) {
		t.Errorf("error %v, want Transient", err)
	}
	if diff := cmp.Diff(bothVolumes(), own(r.host)); diff != "" {
		t.Errorf("volumes: -want, +got:\n%s", diff)
	}
}

// A file of our volume's name that libvirt has not listed is somebody's: it is reported, not written.
func TestCreate_unlistedFileIsReportedAndNotOverwritten(t *testing.T) {
	r := newRig(t)
	r.host.withPool(testPool, func(p *fakePool) {
		p.volumes = append(p.volumes, &fakeVolume{name: overlayName(testName), content: []byte("mine"), unlisted: true})
	})
	_, err := r.Create(t.Context(), testRequest())
	if err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("error %v does not tell of the file", err)
	}
	r.host.withVolume(testPool, overlayName(testName), func(v *fakeVolume) {
		if string(v.content) != "mine" {
			t.Error("a foreign file was overwritten")
		}
	})
}

// The domain that uses the volume is the instance's own: another process was faster, and the next call
// finds what it made.
func TestCreate_instanceThatAnotherProcessDefinesMeanwhileIsFoundByTheNextCall(t *testing.T) {
	r := leaveVolumes(t)
	other := rigOn(t, r.host)
	r.host.arm(fault{method: "StorageVolLookupByName", arg: overlayName(testName), nth: 1, hook: func() {
		r.host.disarm()
		other.mustCreate(t, testRequest())
	}})
	_, err := r.Create(t.Context(), testRequest())
	wantErr(t, err, provider.ErrTransient, reasonBusy)
	r.mustCreate(t, testRequest())
	r.host.withDomain(testName, func(d *fakeDomain) {
		if d.starts != 1 || d.destroyed != 0 {
			t.Errorf("started %d times, destroyed %d times, want one start", d.starts, d.destroyed)
		}
	})
}
