package kvm2

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// killedFor leaves what a process leaves that was killed in a transfer that it began for an instance.
func killedFor(t *testing.T, h *fakeHost, instance string, img provider.KVMImage) string {
	t.Helper()
	base := keyFor(t, img).newBase(instance, img.Format)
	h.addVolume(testPool, base, []byte("a part"))
	return base
}

// The image that the killed process was at may be another one than the entry has now.
func TestDelete_removesTheTransferOfAKilledCreate(t *testing.T) {
	r := newRig(t)
	before := r.host.volumeNames(testPool)
	other := testImage(t)
	other.SHA256 = hexSum([]byte("another"))
	killedFor(t, r.host, testName, testImage(t))
	killedFor(t, r.host, testName, other)
	r.mustDelete(t)
	wantVolumes(t, r.host, before...)
}

func TestDelete_leavesTransfersThatMayBeNeeded(t *testing.T) {
	tests := map[string]struct {
		reason string
		leave  func(t *testing.T, r *rig) (name string)
	}{
		"another instance's": {
			reason: "its process may live",
			leave: func(t *testing.T, r *rig) string {
				t.Helper()
				return killedFor(t, r.host, testName+"-2", testImage(t))
			},
		},
		"published": {
			reason: "its marker vouches for it, and other instances use it",
			leave: func(t *testing.T, r *rig) string {
				t.Helper()
				img := testImage(t)
				img.SHA256 = hexSum([]byte("another"))
				return cacheImage(t, r.host, img, qcow2Bytes(64<<10))
			},
		},
		"used without a marker": {
			reason: "a disk stands on it",
			leave: func(t *testing.T, r *rig) string {
				t.Helper()
				base := killedFor(t, r.host, testName, testImage(t))
				makeOverlayIn(t, r.host, "somebodys.qcow2", "/srv/vms/images/"+base)
				return base
			},
		},
		"of another form": {
			reason: "it is no name of ours",
			leave: func(t *testing.T, r *rig) string {
				t.Helper()
				name := killedFor(t, newFakeHost("other"), testName, testImage(t)) + ".bak"
				r.host.addVolume(testPool, name, []byte("x"))
				return name
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			vol := tc.leave(t, r)
			before := r.host.volumeNames(testPool)
			r.mustDelete(t)
			if got := r.host.volumeNames(testPool); !slices.Equal(got, before) {
				t.Errorf("%s (%s): the pool holds %q, want %q", vol, tc.reason, got, before)
			}
		})
	}
}

// The Create that began the transfer was cancelled, and another one waits for it: its volume is no
// dead one's.
func TestDelete_leavesATransferThatThisProcessCarriesOn(t *testing.T) {
	content := qcow2Bytes(256 << 10)
	m := newMirror(t, content)
	r := coldOn(t, newFakeHost("beelink"), m)
	reached, release := make(chan struct{}), make(chan struct{})
	m.set(content, half(content, reached, release))
	first, cancel := context.WithCancel(t.Context())
	result := make(chan error, 2)
	go func() {
		_, err := r.Create(first, testRequest())
		result <- err
	}()
	<-reached
	waitForUpload(t, r.host)
	go func() {
		_, err := r.Create(t.Context(), testRequest(func(req *provider.CreateRequest) { req.Name, req.UID = "proxy-2", otherUID }))
		result <- err
	}()
	key := keyFor(t, m.image())
	waitFor(t, "both wait for the image", func() bool { return waitingFor(r.images, r.config.Hosts[0], key) == 2 })
	cancel()
	wantErr(t, <-result, provider.ErrTransient, provider.ReasonCanceled)
	r.mustDelete(t)
	close(release)
	if err := <-result; err != nil {
		t.Errorf("the other create: %v", err)
	}
	if n := len(m.methods()); n != 1 {
		t.Errorf("there were %d requests, want 1: the transfer was carried on", n)
	}
}

// As TestCreate_cutOffAnywhereThenDeletedLeavesNothing, with the image's transfer among the steps: what
// is left is base and marker, or neither.
func TestCreate_cutOffInATransferThenDeletedLeavesBaseAndMarkerOnly(t *testing.T) {
	m := newMirror(t, qcow2Bytes(256<<10))
	clean := coldOn(t, newFakeHost("beelink"), m)
	clean.mustCreate(t, testRequest())
	total, wantShared := len(clean.host.recorded()), shared(clean.host)
	for name, ending := range endings() {
		t.Run(name, func(t *testing.T) {
			for k := 1; k <= total; k++ {
				r := coldOn(t, newFakeHost("beelink"), m)
				cut := ending
				cut.nth = k
				r.host.arm(cut)
				_, err := r.Create(t.Context(), testRequest())
				r.host.disarm()
				at := fmt.Sprintf("after call %d (%v, first error %v)", k, r.host.recorded()[k-1], err)
				if err := rigOn(t, r.host).Delete(t.Context(), testID); err != nil {
					t.Errorf("%s: delete: %v", at, err)
				}
				wantNothing(t, r.host, at, wantShared)
				// A marker alone vouches for nothing; only a host that denies what it did leaves one.
				marker := keyFor(t, m.image()).marker()
				if left := r.host.volumeNames(testPool); len(left) == 1 && left[0] != marker {
					t.Errorf("%s: the pool has %v, want base and marker or nothing", at, left)
				}
			}
		})
	}
}

// Close waits for a cancelled transfer to remove its volume, which takes the host a moment.
func TestClose_removesWhatACancelledTransferWrote(t *testing.T) {
	content := qcow2Bytes(256 << 10)
	m := newMirror(t, content)
	r := coldOn(t, newFakeHost("beelink"), m)
	reached := make(chan struct{})
	m.set(content, half(content, reached, nil))
	removing, goOn := make(chan struct{}), make(chan struct{})
	r.host.arm(fault{method: "StorageVolDelete", entered: removing, block: goOn})
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := r.Create(ctx, testRequest())
		result <- err
	}()
	<-reached
	waitForUpload(t, r.host)
	cancel()
	wantErr(t, <-result, provider.ErrTransient, provider.ReasonCanceled)
	closed := make(chan error, 1)
	go func() { closed <- r.Close() }()
	select {
	case <-removing:
		time.AfterFunc(closeGrace/10, func() { close(goOn) })
	case <-closed:
		t.Fatal("Close did not wait for the removal")
	}
	if err := <-closed; err != nil {
		t.Errorf("close: %v", err)
	}
	wantVolumes(t, r.host)
}
