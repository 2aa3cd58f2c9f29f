package fake

import (
	"context"
	"errors"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// ListByTag lists our instances, zone by zone.
func (p *Provider) ListByTag(ctx context.Context) ([]provider.Instance, error) {
	begin := time.Now()
	list, err := p.list(ctx)
	return list, p.finish(ctx, ListByTag, "", begin, err)
}

func (p *Provider) list(ctx context.Context) ([]provider.Instance, error) {
	if err := p.begin(ctx, ListByTag); err != nil {
		return nil, err
	}
	var out []provider.Instance
	for _, zone := range p.zones {
		places, err := p.backend.list(ctx, zone)
		if err != nil {
			return nil, err
		}
		for _, at := range places {
			found, err := p.backend.lookUp(ctx, at)
			if errors.Is(err, errAbsent) {
				continue // vanished since
			}
			if err != nil {
				return nil, err
			}
			if !found.unreadable && p.ours(found) {
				out = append(out, describe(at, found))
			}
		}
	}
	return out, nil
}
