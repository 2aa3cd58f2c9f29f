package static

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

const (
	// dialsAtOnce is how many endpoints of a zone are tried at the same time.
	dialsAtOnce = 64
	// namedEndpoints is how many endpoints that do not answer a message names.
	namedEndpoints = 5
)

// Check looks at the lease directory and connects to every endpoint, all zones at once.
func (p *Provider) Check(ctx context.Context) []provider.HostCheck {
	begin := time.Now()
	checks := make([]provider.HostCheck, len(p.zones))
	var all sync.WaitGroup
	for i, zone := range p.zones {
		all.Go(func() { checks[i] = p.checkZone(ctx, zone) })
	}
	all.Wait()
	_ = p.finish(ctx, "check", "", begin, nil) // a check has results, and no error
	return checks
}

func (p *Provider) checkZone(ctx context.Context, zone string) provider.HostCheck {
	begin := time.Now()
	endpoints := p.config.In(zone)
	taken, err := p.room(ctx, zone)
	if err == nil {
		err = p.dialAll(ctx, zone, endpoints)
	}
	check := provider.HostCheck{Host: zone, Latency: time.Since(begin)}
	if err != nil {
		err = provider.Wrap(p.name, err)
		check.Reason, check.Message = provider.ReasonOf(err), err.Error()
		return check
	}
	free := 0
	for _, e := range endpoints {
		if !taken[claimFile(e.Address, e.Port)] {
			free++
		}
	}
	check.Ready, check.Reason = true, provider.ReasonReady
	check.Message = fmt.Sprintf("zone %s can be used: %d of %d endpoints are free", zone, free, len(endpoints))
	check.Details = []provider.Detail{{Key: "endpoints", Value: strconv.Itoa(len(endpoints))}, {Key: "free", Value: strconv.Itoa(free)}}
	return check
}

// room asks what a Create needs of the lease directory, and names the endpoints' leases.
func (p *Provider) room(ctx context.Context, zone string) (taken map[string]bool, err error) {
	if err := p.store.Writable(ctx, zone); err != nil {
		return nil, classify(zone, "look at the lease directory", err)
	}
	files, err := p.store.Claims(ctx, zone)
	if err != nil {
		return nil, classify(zone, "list the leases", err)
	}
	taken = map[string]bool{}
	for _, file := range files {
		taken[file] = true
	}
	return taken, nil
}

// dialAll connects to each endpoint and names those that do not answer.
func (p *Provider) dialAll(ctx context.Context, zone string, endpoints []provider.StaticEndpoint) error {
	failures := make([]error, len(endpoints))
	slots := make(chan struct{}, dialsAtOnce)
	var all sync.WaitGroup
	for i, e := range endpoints {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			failures[i] = p.store.Dial(ctx, zone, net.JoinHostPort(e.Address, strconv.Itoa(e.Port)))
		})
	}
	all.Wait()
	var dead []string
	for i, err := range failures {
		if err != nil {
			dead = append(dead, fmt.Sprintf("%s (%v)", endpoints[i].Name, err))
		}
	}
	if err := ctx.Err(); err != nil {
		return classify(zone, "connect to the endpoints", fmt.Errorf("not all could be tried: %w", err))
	}
	if dead == nil {
		return nil
	}
	more := ""
	if n := len(dead) - namedEndpoints; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return provider.Errorf(provider.ErrTransient, ReasonEndpointUnreachable,
		"zone %s: %d of %d endpoints accept no connection: %s%s: start the proxies there, or take them out of the entry",
		zone, len(dead), len(endpoints), strings.Join(dead[:min(len(dead), namedEndpoints)], ", "), more)
}
