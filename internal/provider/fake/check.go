package fake

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Check asks every host at once.
func (p *Provider) Check(ctx context.Context) []provider.HostCheck {
	begin := time.Now()
	checks := make([]provider.HostCheck, len(p.zones))
	var all sync.WaitGroup
	for i, zone := range p.zones {
		all.Go(func() { checks[i] = p.checkHost(ctx, zone) })
	}
	all.Wait()
	_ = p.finish(ctx, Check, "", begin, nil) // a check has results, and no error
	return checks
}

func (p *Provider) checkHost(ctx context.Context, zone string) provider.HostCheck {
	begin := time.Now()
	var room string
	err := p.backend.call(ctx, Check, zone, func() error {
		room = p.backend.room(zone)
		return nil
	})
	check := provider.HostCheck{Host: zone, Latency: time.Since(begin)}
	if err != nil {
		err = provider.Wrap(p.name, err)
		check.Reason = provider.ReasonOf(err)
		check.Message = err.Error() + ": see to the host " + zone
		return check
	}
	check.Ready, check.Reason, check.Message = true, provider.ReasonReady, "the host "+zone+" can be used"
	check.Details = []provider.Detail{{Key: "room", Value: room}}
	return check
}

// room says how many more instances a zone takes. The caller holds the lock.
func (b *Backend) room(zone string) string {
	if limit, limited := b.limits[zone]; limited {
		return strconv.Itoa(max(0, limit-b.count(zone)))
	}
	return "unlimited"
}

// GuardedDestinations gives the address of the zone's hypervisor.
func (p *Provider) GuardedDestinations(at provider.Placement) ([]string, error) {
	if slices.Contains(p.zones, at.Zone) {
		return []string{p.hypervisor(at.Zone)}, nil
	}
	return nil, provider.Wrap(p.name, provider.Errorf(provider.ErrPermanent, provider.ReasonUnknownZone, "there is no zone %q", at.Zone))
}

// hypervisor gives the address of a zone's host.
func (p *Provider) hypervisor(zone string) string {
	return "192.0.2." + strconv.Itoa(slices.Index(p.zones, zone)+1)
}
