package kvm2

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// otherImage is in the pool and in no configuration.
func otherImage() provider.KVMImage {
	return provider.KVMImage{URL: "http://127.0.0.1:1/old.qcow2", SHA256: hexSum([]byte("old")), Format: provider.FormatQCOW2}
}

// basePath is where a base lies.
func basePath(h *fakeHost, base string) (path string) {
	h.withPool(testPool, func(p *fakePool) { path = p.pathOf(base) })
	return path
}

// age makes a volume older.
func age(h *fakeHost, name string, by time.Duration) {
	h.withVolume(testPool, name, func(v *fakeVolume) { v.mtime = v.mtime.Add(-by) })
}

// used are the ways in which something of somebody uses a base, with the name of the user.
func used() map[string]struct {
	use  func(t *testing.T, h *fakeHost, base string)
	user string
} {
	runningOn := func(source string) func(*testing.T, *fakeHost, string) {
		return func(t *testing.T, h *fakeHost, base string) {
			t.Helper()
			h.addDomain(markedXML(t, "theirs", otherUID, nil), true)
			h.withDomain("theirs", func(d *fakeDomain) {
				d.rawXML = "<domain type='kvm' id='7'><name>theirs</name><devices>" + strings.ReplaceAll(source, "BASE", basePathLocked(h, base)) + "</devices></domain>"
			})
		}
	}
	return map[string]struct {
		use  func(t *testing.T, h *fakeHost, base string)
		user string
	}{
		"an overlay of somebody else": {func(t *testing.T, h *fakeHost, base string) {
			makeOverlayIn(t, h, "theirs.qcow2", basePath(h, base))
		}, "volume theirs.qcow2"},
		"an overlay that libvirt has not listed": {func(t *testing.T, h *fakeHost, base string) {
			makeOverlayIn(t, h, "by-hand.qcow2", basePath(h, base))
			h.withVolume(testPool, "by-hand.qcow2", func(v *fakeVolume) { v.unlisted = true })
		}, "volume by-hand.qcow2"},
		"an overlay in another pool": {func(t *testing.T, h *fakeHost, base string) {
			makeOverlayIn(t, h, "far.qcow2", basePath(h, base))
			h.addPool("second", "/mnt/second", fakeGiB)
			h.withPool(testPool, func(p *fakePool) {
				i := slices.IndexFunc(p.volumes, func(v *fakeVolume) bool { return v.name == "far.qcow2" })
				h.pools["second"].volumes = append(h.pools["second"].volumes, p.volumes[i])
				p.volumes = slices.Delete(p.volumes, i, i+1)
			})
		}, "volume far.qcow2"},
		"an overlay that spells the directory otherwise": {func(t *testing.T, h *fakeHost, base string) {
			makeOverlayIn(t, h, "linked.qcow2", basePath(h, base))
			h.withVolume(testPool, "linked.qcow2", func(v *fakeVolume) { v.backing.Path = "/var/vms/" + base })
		}, "volume linked.qcow2"},
		"a domain with the base as its disk": {runningOn("<disk type='file'><source file='BASE'/></disk>"), "domain theirs"},
		"a domain whose disk lies in no pool": {runningOn("<disk type='file'><source file='/home/x.qcow2'/><backingStore type='file'>" +
			"<source file='/home/y.qcow2'/><backingStore type='file'><source file='BASE'/></backingStore></backingStore></disk>"), "domain theirs"},
	}
}

// basePathLocked is basePath where the host's lock is not held by the caller of withDomain's function.
func basePathLocked(h *fakeHost, base string) string { return h.pools[testPool].pathOf(base) }

func mustImages(t *testing.T, r *rig) []provider.BaseImage {
	t.Helper()
	list, err := r.Images(t.Context(), "beelink")
	if err != nil {
		t.Fatalf("images: %v", err)
	}
	return list
}

func TestImages_listsEveryUser(t *testing.T) {
	for name, tc := range used() {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			base := cacheImage(t, r.host, otherImage(), qcow2Bytes(128<<10))
			tc.use(t, r.host, base)
			r.host.forget()
			i := slices.IndexFunc(mustImages(t, r), func(b provider.BaseImage) bool { return b.Name == base })
			if got := mustImages(t, r)[i].UsedBy; !slices.Equal(got, []string{tc.user}) {
				t.Errorf("used by %q, want %q alone", got, tc.user)
			}
			wantUntouched(t, r)
		})
	}
}

func TestImages_saysWhatEachIs(t *testing.T) {
	r := created(t)
	left := cacheImage(t, r.host, otherImage(), qcow2Bytes(128<<10))
	key := keyFor(t, otherImage())
	young := key.newBase("another", provider.FormatQCOW2)
	r.host.addVolume(testPool, young, qcow2Bytes(32<<10))
	// Its marker vouches for another attempt now.
	fresh := key.newBase("another", provider.FormatQCOW2)
	r.host.addVolume(testPool, fresh, qcow2Bytes(128<<10))
	r.host.withVolume(testPool, key.marker(), func(v *fakeVolume) { v.backing.Path = "/srv/vms/images/" + fresh })
	age(r.host, left, 21*time.Minute)

	type row struct {
		State  provider.ImageState
		SHA256 string
		Images []string
		URL    string
		Size   uint64
		UsedBy []string
	}
	got := map[string]row{}
	for _, b := range mustImages(t, r) {
		got[b.Name] = row{b.State, b.SHA256, b.Images, b.URL, b.SizeBytes, b.UsedBy}
		if d := time.Since(b.ModifiedAt); d < 0 || d > time.Hour {
			t.Errorf("%s was modified at %v", b.Name, b.ModifiedAt)
		}
	}
	img := testImage(t)
	inUse := r.host.volumeNames(testPool)[slices.IndexFunc(r.host.volumeNames(testPool), keyFor(t, img).isBase)]
	want := map[string]row{
		inUse: {provider.ImageReady, img.SHA256, []string{"egress"}, img.URL, 64 << 10, []string{"volume " + overlayName(testName)}},
		fresh: {provider.ImageReady, otherImage().SHA256, []string{}, "", 128 << 10, []string{}},
		left:  {provider.ImageLeft, otherImage().SHA256, []string{}, "", 128 << 10, []string{}},
		young: {provider.ImageWriting, otherImage().SHA256, []string{}, "", 32 << 10, []string{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestImages_refusesAnUnknownZone(t *testing.T) {
	r := newRig(t)
	_, err := r.Images(t.Context(), "nowhere")
	wantErr(t, err, provider.ErrPermanent, provider.ReasonUnknownZone)
	wantErr(t, r.RemoveImage(t.Context(), "nowhere", "x"), provider.ErrPermanent, provider.ReasonUnknownZone)
}

func TestRemoveImage_sparesWhatIsUsed(t *testing.T) {
	for name, tc := range used() {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			base := cacheImage(t, r.host, otherImage(), qcow2Bytes(128<<10))
			tc.use(t, r.host, base)
			before := r.host.volumeNames(testPool)
			err := r.RemoveImage(t.Context(), "beelink", base)
			wantErr(t, err, provider.ErrPermanent, provider.ReasonImageInUse)
			if err != nil && !strings.Contains(err.Error(), tc.user) {
				t.Errorf("the error does not name %s: %v", tc.user, err)
			}
			wantVolumes(t, r.host, before...)
		})
	}
}

// What may be in use, for all that can be read, stays.
func TestRemoveImage_sparesWhatIsInDoubt(t *testing.T) {
	tests := map[string]func(t *testing.T, h *fakeHost, base string){
		"a volume that cannot be read": func(_ *testing.T, h *fakeHost, _ string) {
			h.addVolume(testPool, "odd.qcow2", nil)
			h.arm(fault{method: "StorageVolGetXMLDesc", arg: "odd.qcow2", err: virErr(libvirt.ErrSystemError, "cannot open: Input/output error")})
		},
		"a domain that cannot be read": func(t *testing.T, h *fakeHost, _ string) {
			h.addDomain(markedXML(t, "theirs", otherUID, nil), true)
			h.withDomain("theirs", func(d *fakeDomain) { d.rawXML = "<domain" })
		},
		"a pool that cannot be refreshed": func(_ *testing.T, h *fakeHost, _ string) {
			h.arm(fault{method: "StoragePoolRefresh", err: virErr(libvirt.ErrSystemError, "cannot open path: Input/output error")})
		},
		"a base that may be being written": func(t *testing.T, h *fakeHost, base string) {
			named, _ := parseBase(base)
			h.withPool(testPool, func(p *fakePool) {
				p.volumes = slices.DeleteFunc(p.volumes, func(v *fakeVolume) bool { return v.name == named.key.marker() })
			})
			age(h, base, 19*time.Minute)
		},
		"a base of tomorrow": func(_ *testing.T, h *fakeHost, base string) {
			named, _ := parseBase(base)
			h.withPool(testPool, func(p *fakePool) {
				p.volumes = slices.DeleteFunc(p.volumes, func(v *fakeVolume) bool { return v.name == named.key.marker() })
			})
			age(h, base, -24*time.Hour)
		},
	}
	for name, harm := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.images = newImagesWithin(r.hosts, imageLimits{transfer: 20 * time.Minute, poll: time.Millisecond})
			base := cacheImage(t, r.host, otherImage(), qcow2Bytes(128<<10))
			harm(t, r.host, base)
			before := r.host.volumeNames(testPool)
			if err := r.RemoveImage(t.Context(), "beelink", base); !errors.Is(err, provider.ErrTransient) {
				t.Errorf("error %v, want Transient", err)
			}
			wantVolumes(t, r.host, before...)
		})
	}
}

func TestRemoveImage_takesBaseAndMarkerAndNothingElse(t *testing.T) {
	r := created(t)
	before := r.host.volumeNames(testPool)
	base := cacheImage(t, r.host, otherImage(), qcow2Bytes(128<<10))
	for range 2 { // the second time it is gone already
		if err := r.RemoveImage(t.Context(), "beelink", base); err != nil {
			t.Fatalf("remove: %v", err)
		}
		wantVolumes(t, r.host, before...)
	}
	wantErr(t, r.RemoveImage(t.Context(), "beelink", overlayName(testName)), provider.ErrPermanent, provider.ReasonInvalidRequest)
	wantVolumes(t, r.host, before...)
}

func TestRemoveImage_takesWhatADeadTransferLeft(t *testing.T) {
	r := newRig(t)
	base := cacheImage(t, r.host, otherImage(), qcow2Bytes(128<<10))
	before := r.host.volumeNames(testPool)
	dead := keyFor(t, otherImage()).newBase("another", provider.FormatQCOW2)
	r.host.addVolume(testPool, dead, qcow2Bytes(32<<10))
	age(r.host, dead, 21*time.Minute)
	if err := r.RemoveImage(t.Context(), "beelink", dead); err != nil {
		t.Fatal(err)
	}
	wantVolumes(t, r.host, before...) // the marker of the other attempt, and that, stay
	if i := slices.IndexFunc(mustImages(t, r), func(b provider.BaseImage) bool { return b.Name == base }); i < 0 {
		t.Error("the published base is gone")
	}
}

// wantDiskOnABase checks that the domain runs and that its disk stands on a base that is there.
func wantDiskOnABase(t *testing.T, h *fakeHost, at string) {
	t.Helper()
	var backing string
	h.withVolume(testPool, overlayName(testName), func(v *fakeVolume) { backing = v.backing.Path })
	h.withPool(testPool, func(*fakePool) {
		if !h.fileExists(backing) {
			t.Errorf("%s: the disk stands on %s, which is gone", at, backing)
		}
	})
	h.withDomain(testName, func(d *fakeDomain) {
		if d.state != fakeRunning {
			t.Errorf("%s: the domain is in state %d", at, d.state)
		}
	})
}

// cachedOn is a host with the mirror's image in its pool, old enough to be taken for finished.
func cachedOn(t *testing.T, m *mirror) (h *fakeHost, base string) {
	t.Helper()
	h = newFakeHost("beelink")
	return h, cacheImage(t, h, m.image(), m.content)
}

// A removal at any call of a create: the create ends well or as transient, and in the end its disk
// stands on a base that is there.
func TestRemoveImage_besideACreate(t *testing.T) {
	m := newMirror(t, qcow2Bytes(256<<10))
	h, _ := cachedOn(t, m)
	coldOn(t, h, m).mustCreate(t, testRequest())
	total := len(h.recorded())
	removed := 0
	for k := 1; k <= total; k++ {
		h, base := cachedOn(t, m)
		r, remover := coldOn(t, h, m), coldOn(t, h, m)
		var removal error
		h.arm(fault{nth: k, hook: func() { h.disarm(); removal = remover.RemoveImage(t.Context(), "beelink", base) }})
		_, err := r.Create(t.Context(), testRequest())
		at := fmt.Sprintf("removal (%v) before call %d, create %v", removal, k, err)
		if removal == nil {
			removed++
		}
		if err != nil {
			if !errors.Is(err, provider.ErrTransient) {
				t.Errorf("%s: want success or Transient", at)
			}
			r.mustCreate(t, testRequest())
		}
		wantDiskOnABase(t, h, at)
	}
	if removed == 0 || removed == total {
		t.Errorf("the image was removed beside %d of %d calls: the sweep misses one side", removed, total)
	}
}

// The other way round: a whole create at any call of a removal.
func TestRemoveImage_createInTheMiddleOfIt(t *testing.T) {
	m := newMirror(t, qcow2Bytes(256<<10))
	h, base := cachedOn(t, m)
	if err := coldOn(t, h, m).RemoveImage(t.Context(), "beelink", base); err != nil {
		t.Fatal(err)
	}
	for k, total := 1, len(h.recorded()); k <= total; k++ {
		h, base := cachedOn(t, m)
		r, remover := coldOn(t, h, m), coldOn(t, h, m)
		var created error
		h.arm(fault{nth: k, hook: func() { h.disarm(); _, created = r.Create(t.Context(), testRequest()) }})
		removal := remover.RemoveImage(t.Context(), "beelink", base)
		at := fmt.Sprintf("create (%v) before call %d of a removal (%v)", created, k, removal)
		if created != nil {
			r.mustCreate(t, testRequest())
		}
		wantDiskOnABase(t, h, at)
	}
}

// The worst moment: the create has read the marker, the removal has looked for users and found none, and
// only then the overlay is made.
func TestRemoveImage_overlayMadeAfterTheLastLook(t *testing.T) {
	m := newMirror(t, qcow2Bytes(256<<10))
	h, base := cachedOn(t, m)
	r, remover := coldOn(t, h, m), coldOn(t, h, m)
	held, goOn, created := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	h.arm(fault{method: "StorageVolCreateXML", arg: overlayName(testName), nth: 1, entered: held, block: goOn},
		fault{method: "StorageVolDelete", arg: base, nth: 1, hook: func() {
			close(goOn)
			created <- <-created // the create goes on to its end before the base is removed
		}})
	go func() {
		_, err := r.Create(t.Context(), testRequest())
		created <- err
	}()
	<-held
	if err := remover.RemoveImage(t.Context(), "beelink", base); err != nil {
		t.Fatalf("remove: %v", err)
	}
	if err := <-created; !errors.Is(err, provider.ErrTransient) {
		t.Errorf("the create ends with %v, want Transient: its base is gone", err)
	}
	h.disarm()
	r.mustCreate(t, testRequest())
	wantDiskOnABase(t, h, "the second create")
}

// After a removal that was cut off at any call, the next create works, and the next removal ends it.
func TestRemoveImage_resumesAfterEachPartialStep(t *testing.T) {
	m := newMirror(t, qcow2Bytes(256<<10))
	h, base := cachedOn(t, m)
	if err := coldOn(t, h, m).RemoveImage(t.Context(), "beelink", base); err != nil {
		t.Fatal(err)
	}
	total := len(h.recorded())
	for name, ending := range endings() {
		t.Run(name, func(t *testing.T) {
			for k := 1; k <= total; k++ {
				h, base := cachedOn(t, m)
				age(h, base, 21*time.Minute)
				ending.nth = k
				h.arm(ending)
				err := coldOn(t, h, m).RemoveImage(t.Context(), "beelink", base)
				h.disarm()
				at := fmt.Sprintf("cut off at call %d: %v", k, err)
				if k%2 == 0 {
					coldOn(t, h, m).mustCreate(t, testRequest())
					wantDiskOnABase(t, h, at)
					continue
				}
				if err := coldOn(t, h, m).RemoveImage(t.Context(), "beelink", base); err != nil {
					t.Errorf("%s: the second removal: %v", at, err)
				}
				if left := h.volumeNames(testPool); len(left) != 0 {
					t.Errorf("%s: %v are left", at, left)
				}
			}
		})
	}
}
