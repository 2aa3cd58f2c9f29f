package static

import (
	"context"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// ListByTag lists the leases of this owner, zone by zone.
func (p *Provider) ListByTag(ctx context.Context) ([]provider.Instance, error) {
	begin := time.Now()
	list, err := p.list(ctx)
	return list, p.finish(ctx, "list", "", begin, err)
}

func (p *Provider) list(ctx context.Context) ([]provider.Instance, error) {
	var all []provider.Instance
	for _, zone := range p.zones {
		list, err := p.listZone(ctx, zone)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

func (p *Provider) listZone(ctx context.Context, zone string) ([]provider.Instance, error) {
	files, err := p.store.Claims(ctx, zone)
	if err != nil {
		return nil, classify(zone, "list the leases", err)
	}
	var list []provider.Instance
	for _, file := range files {
		r, err := p.readable(ctx, zone, file)
		if err != nil {
			return nil, err
		}
		if r == nil || r.Zone != zone || !r.ours(p.owner) {
			continue
		}
		link, err := p.record(ctx, zone, r.place().instanceFile())
		switch {
		case provider.ReasonOf(err) == ReasonLeaseUnreadable:
		case err != nil:
			return nil, err
		case link == nil:
			list = append(list, describe(r, false))
		case link.Token == r.Token:
			list = append(list, describe(r, true))
		default: // the name has another lease: this one is what a lost race left, and nobody's
		}
	}
	return list, nil
}

// readable reads a lease's file; nil is one that vanished or cannot be understood (R2.5.5).
func (p *Provider) readable(ctx context.Context, zone, file string) (*record, error) {
	r, err := p.record(ctx, zone, file)
	if provider.ReasonOf(err) == ReasonLeaseUnreadable {
		return nil, nil
	}
	return r, err
}
