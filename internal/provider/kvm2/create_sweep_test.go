package kvm2

import (
	"fmt"
	"strings"
	"testing"

	"github.com/digitalocean/go-libvirt"
	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// endings are the ways in which a call can be cut off.
func endings() map[string]fault {
	return map[string]fault{
		"refused":                {err: virErr(libvirt.ErrInternalError, "internal error: cut off")},
		"connection dies":        {drop: true},
		"answer lost":            {drop: true, after: true},
		"done, but said to fail": {err: virErr(libvirt.ErrInternalError, "internal error: cut off"), after: true},
	}
}

// After a create that ended at any call, in any way, a new process finishes it: one domain, two
// volumes, base and marker, and the seed of the second attempt where there was no domain yet.
func TestCreate_resumesAfterEachPartialStep(t *testing.T) {
	clean := newRig(t)
	clean.mustCreate(t, testRequest())
	total, wantShared := len(clean.host.recorded()), shared(clean.host)
	for name, ending := range endings() {
		t.Run(name, func(t *testing.T) {
			for k := 1; k <= total; k++ {
				r := newRig(t)
				cut := ending
				cut.nth = k
				r.host.arm(cut)
				_, err := r.Create(t.Context(), testRequest())
				r.host.disarm()
				at := fmt.Sprintf("after call %d (%v, first error %v)", k, r.host.recorded()[k-1], err)
				next := rigOn(t, r.host)
				if id := next.mustCreate(t, testRequest()); id != testID {
					t.Errorf("%s: ID %q", at, id)
				}
				wantOneInstance(t, r.host, at, wantShared)
			}
		})
	}
}

// A create that was cut off at any call leaves nothing that Delete does not find.
func TestCreate_cutOffAnywhereThenDeletedLeavesNothing(t *testing.T) {
	clean := newRig(t)
	clean.mustCreate(t, testRequest())
	total, wantShared := len(clean.host.recorded()), shared(clean.host)
	for name, ending := range endings() {
		t.Run(name, func(t *testing.T) {
			for k := 1; k <= total; k++ {
				r := newRig(t)
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
			}
		})
	}
}

// A Create that made the first change and ends in a class that does not heal leaves nothing (R2.2.27).
func TestCreate_permanentAtAnyCallLeavesNothing(t *testing.T) {
	clean := newRig(t)
	clean.mustCreate(t, testRequest())
	total := len(clean.host.recorded())
	for k := 1; k <= total; k++ {
		r := newRig(t)
		r.host.arm(fault{nth: k, err: virErr(libvirt.ErrAccessDenied, "access denied")})
		_, err := r.Create(t.Context(), testRequest())
		if err == nil {
			continue
		}
		call := r.host.recorded()[k-1]
		if running := len(r.host.domainNames()) == 1; running && call.Method == "DomainGetState" {
			continue // it runs: only the last look was refused
		}
		if names, left := r.host.domainNames(), own(r.host); len(names) != 0 || len(left) != 0 {
			t.Errorf("call %d (%v) refused for good: %v %v are left", k, call, names, left)
		}
		wantErr(t, err, provider.ErrPermanent, provider.ReasonPermissionDenied)
	}
}

func wantOneInstance(t *testing.T, h *fakeHost, at string, wantShared []string) {
	t.Helper()
	if diff := cmp.Diff([]string{testName}, h.domainNames()); diff != "" {
		t.Errorf("%s: domains: -want, +got:\n%s", at, diff)
		return
	}
	h.withDomain(testName, func(d *fakeDomain) {
		if d.state != fakeRunning || !d.autostart || d.config == nil {
			t.Errorf("%s: state %d, autostart %v, persistent %v", at, d.state, d.autostart, d.config != nil)
		}
	})
	if diff := cmp.Diff(startedVolumes(), own(h)); diff != "" {
		t.Errorf("%s: volumes: -want, +got:\n%s", at, diff)
	}
	if diff := cmp.Diff(wantShared, shared(h)); diff != "" {
		t.Errorf("%s: shared volumes: -want, +got:\n%s", at, diff)
	}
	h.withVolume(testPool, seedName(testName), func(v *fakeVolume) {
		if v.length != v.capacity || !strings.Contains(string(v.content), "#cloud-config") {
			t.Errorf("%s: the seed has %d of %d bytes", at, v.length, v.capacity)
		}
	})
}

func wantNothing(t *testing.T, h *fakeHost, at string, wantShared []string) {
	t.Helper()
	if names := h.domainNames(); len(names) != 0 {
		t.Errorf("%s: domains are left: %v", at, names)
	}
	if left := own(h); len(left) != 0 {
		t.Errorf("%s: volumes are left: %v", at, left)
	}
	for _, name := range shared(h) {
		found := false
		for _, want := range wantShared {
			found = found || name == want
		}
		if !found {
			t.Errorf("%s: %s is left beside base and marker", at, name)
		}
	}
}
