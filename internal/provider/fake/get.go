package fake

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Get reads one instance.
func (p *Provider) Get(ctx context.Context, id string) (provider.Instance, error) {
	begin := time.Now()
	inst, err := p.get(ctx, id)
	return inst, p.finish(ctx, Get, id, begin, err)
}

func (p *Provider) get(ctx context.Context, id string) (provider.Instance, error) {
	at, err := parse(id)
	if err != nil {
		return provider.Instance{}, err
	}
	if !p.configured(at.zone) {
		return provider.Instance{}, provider.Errorf(provider.ErrPermanent, provider.ReasonHostNotConfigured,
			"the entry has no zone %s any more: put it back, or give the instance up", at.zone)
	}
	if err := p.begin(ctx, Get); err != nil {
		return provider.Instance{}, err
	}
	found, err := p.backend.lookUp(ctx, at)
	switch {
	case errors.Is(err, errAbsent):
		return provider.Instance{}, notFound(at)
	case err != nil:
		return provider.Instance{}, err
	case found.unreadable:
		return provider.Instance{}, unreadable(at)
	case !p.ours(found):
		return provider.Instance{}, notFound(at)
	}
	return describe(at, found), nil
}

func notFound(at place) error {
	return provider.Errorf(provider.ErrNotFound, provider.ReasonNotFound, "zone %s: there is no instance %s of ours", at.zone, at.name)
}

// ours reports whether the instance carries our mark.
func (p *Provider) ours(found instance) bool { return found.mark != nil && found.mark.owner == p.owner }

// describe gives an instance of ours as the contract has it.
func describe(at place, found instance) provider.Instance {
	inst := provider.Instance{
		ID: at.id(), Name: at.name, UID: found.mark.uid, Owner: found.mark.owner, Ref: found.mark.ref,
		State: stateOf(found), Addresses: usable(found.addresses), CreatedAt: found.mark.createdAt, Zone: at.zone,
	}
	if found.mark.uid != "" {
		inst.MACs = []string{macOf(found.mark.uid)}
	}
	return inst
}

func stateOf(found instance) provider.State {
	switch {
	case found.mark.uid == "":
		return provider.StateProvisioning
	case !found.running():
		return provider.StateStopped
	case len(usable(found.addresses)) == 0:
		return provider.StateProvisioning
	}
	return provider.StateRunning
}

// usable leaves out the addresses that lead to no instance (R2.3.16).
func usable(addresses []string) []string {
	return slices.DeleteFunc(slices.Clone(addresses), func(text string) bool {
		ip, err := netip.ParseAddr(text)
		return err != nil || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified()
	})
}
