package static

import (
	"context"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Get reads one lease.
func (p *Provider) Get(ctx context.Context, id string) (provider.Instance, error) {
	begin := time.Now()
	inst, err := p.get(ctx, id)
	return inst, p.finish(ctx, "get", id, begin, err)
}

func (p *Provider) get(ctx context.Context, id string) (provider.Instance, error) {
	at, err := parseID(id)
	if err != nil {
		return provider.Instance{}, err
	}
	if !p.configured(at.zone) {
		return provider.Instance{}, provider.Errorf(provider.ErrPermanent, provider.ReasonHostNotConfigured,
			"zone %s: the entry has no endpoint in it any more: put one back, or delete what uses the zone", at.zone)
	}
	f, err := p.find(ctx, at, false)
	if err != nil {
		return provider.Instance{}, err
	}
	r := f.instance()
	if r == nil || !r.ours(p.owner) {
		return provider.Instance{}, provider.Errorf(provider.ErrNotFound, provider.ReasonNotFound,
			"zone %s: there is no lease of ours for %s", at.zone, at.name)
	}
	return describe(r, f.held != nil), nil
}

// describe says what a lease is to a caller. One that does not hold is off: a Create takes it up again.
func describe(r *record, holds bool) provider.Instance {
	inst := provider.Instance{
		ID: r.place().id(), Name: r.Name, Zone: r.Zone, Owner: r.Mark.Owner, UID: r.Mark.UID, Ref: r.Mark.Ref,
		CreatedAt: r.Mark.CreatedAt.UTC(), State: provider.StateStopped,
	}
	if inst.CreatedAt.IsZero() {
		inst.CreatedAt = time.Time{}
	}
	if holds {
		if inst.Addresses = r.addresses(); inst.Addresses != nil {
			inst.Port = r.Port
		}
		inst.State = provider.StateRunning
	}
	if inst.UID == "" || (holds && len(inst.Addresses) == 0) {
		inst.State = provider.StateProvisioning
	}
	return inst
}
