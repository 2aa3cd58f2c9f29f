package kvm2

import (
	"context"
	"errors"
	"testing"

	"github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// A create that was killed inside DomainCreate leaves a start that libvirt goes on with.
func TestCreate_waitsForAStartUnderWay(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		ends   func(*fakeDomain)
		starts int
	}{
		"Runs":  {"the start comes to its end", func(d *fakeDomain) { d.state, d.reason = fakeRunning, 0 }, 1},
		"Fails": {"the start fails, so this create starts it", func(d *fakeDomain) { d.state, d.reason, d.live = fakeShutoff, 0, nil }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.mustCreate(t, testRequest())
			r.host.withDomain(testName, func(d *fakeDomain) {
				d.state, d.reason = fakePaused, int32(libvirt.DomainPausedStartingUp)
			})
			r.host.arm(fault{method: "DomainGetState", nth: 3, hook: func() { r.host.withDomain(testName, tc.ends) }})
			r.mustCreate(t, testRequest())
			r.host.withDomain(testName, func(d *fakeDomain) {
				if d.state != fakeRunning || d.starts != tc.starts {
					t.Errorf("%s: state %d after %d starts, want running after %d", tc.reason, d.state, d.starts, tc.starts)
				}
			})
		})
	}
}

func TestCreate_waitForAStartUnderWayEndsWithTheContext(t *testing.T) {
	r := newRig(t)
	r.mustCreate(t, testRequest())
	r.host.withDomain(testName, func(d *fakeDomain) {
		d.state, d.reason = fakePaused, int32(libvirt.DomainPausedStartingUp)
	})
	ctx, cancel := context.WithCancel(t.Context())
	r.host.arm(fault{method: "DomainGetState", nth: 2, hook: cancel})
	if _, err := r.Create(ctx, testRequest()); !errors.Is(err, context.Canceled) || provider.ReasonOf(err) != provider.ReasonCanceled {
		t.Errorf("a cancelled wait gave %v, want Canceled", err)
	}
}
