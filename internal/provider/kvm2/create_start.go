package kvm2

import (
	"context"
	"fmt"

	"github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// reasonNotRunning: the domain exists, is active, and does not execute.
const reasonNotRunning = "NotRunning"

// finish brings an instance of ours to run: what is there already is not made again.
func finish(ctx context.Context, c backend, s standing) error {
	state, reason, err := settledState(ctx, c, s.dom)
	if err != nil {
		return fmt.Errorf("state of domain %s: %w", s.dom.Name, err)
	}
	switch {
	case isRunning(state):
		return nil
	case s.info.Active && state != int32(libvirt.DomainShutoff): // else its start failed while we looked
		return notRunning(s.dom, state, reason)
	}
	return start(ctx, c, s.dom)
}

// start sets autostart first, so that a domain that runs is known to have it, and returns when the
// domain runs. What DomainCreate says is not believed either way: its answer may be lost, and the code
// for "already running" means other things too.
func start(ctx context.Context, c backend, dom domain) error {
	provider.Report(ctx, provider.Progress{Step: "start"})
	if err := c.DomainSetAutostart(ctx, dom, true); err != nil {
		return fmt.Errorf("set domain %s to start with its host: %w", dom.Name, err)
	}
	createErr := c.DomainCreate(ctx, dom)
	state, reason, err := settledState(ctx, c, dom)
	switch {
	case err == nil && isRunning(state):
		return nil
	case createErr != nil:
		return fmt.Errorf("start domain %s: %w", dom.Name, createErr)
	case err != nil:
		return fmt.Errorf("state of domain %s: %w", dom.Name, err)
	}
	return notRunning(dom, state, reason)
}

// notRunning is the error for a domain that neither runs nor can be started. A paused one is not
// resumed: whoever or whatever paused it, a full disk for example, had a reason that is still there.
func notRunning(dom domain, state, reason int32) error {
	advice := "look at its log on the host"
	if libvirt.DomainState(state) == libvirt.DomainPaused {
		advice = "mend what paused it, then resume it with virsh resume " + dom.Name
		if libvirt.DomainPausedReason(reason) == libvirt.DomainPausedIoerror {
			advice = "make room on the host's disk, then resume it with virsh resume " + dom.Name
		}
	}
	return provider.Errorf(provider.ErrTransient, reasonNotRunning, "domain %s is %s and does not run: %s",
		dom.Name, stateName(state), advice)
}

// stateName is virsh's word for a domain state.
func stateName(state int32) string {
	names := map[libvirt.DomainState]string{
		libvirt.DomainPaused: "paused", libvirt.DomainShutdown: "in shutdown", libvirt.DomainShutoff: "shut off",
		libvirt.DomainCrashed: "crashed", libvirt.DomainPmsuspended: "suspended by its guest",
	}
	if name, ok := names[libvirt.DomainState(state)]; ok {
		return name
	}
	return fmt.Sprintf("in state %d", state)
}
