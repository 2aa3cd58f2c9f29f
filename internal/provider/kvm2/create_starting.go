package kvm2

import (
	"context"
	"time"

	"github.com/digitalocean/go-libvirt"
)

// startingPause is the time between two looks at a domain that is being started.
const startingPause = 200 * time.Millisecond

// settledState gives a domain's state once nobody is starting it. libvirt goes on with a start whose
// caller died, and shows the domain as paused until QEMU is up: that is neither an error nor ours to
// resume. It waits as long as a start may take (limits.domainCreate), or until ctx ends.
func settledState(ctx context.Context, c backend, dom domain) (state, reason int32, err error) {
	limit := time.NewTimer(defaultLimits().domainCreate)
	defer limit.Stop()
	look := time.NewTicker(startingPause)
	defer look.Stop()
	for {
		state, reason, err = c.DomainGetState(ctx, dom)
		if err != nil || !isStarting(state, reason) {
			return state, reason, err
		}
		select {
		case <-ctx.Done():
			return state, reason, ctx.Err()
		case <-limit.C:
			return state, reason, nil
		case <-look.C:
		}
	}
}

// isStarting reports whether a domain is paused because its start is under way.
func isStarting(state, reason int32) bool {
	return state == int32(libvirt.DomainPaused) && reason == int32(libvirt.DomainPausedStartingUp)
}
