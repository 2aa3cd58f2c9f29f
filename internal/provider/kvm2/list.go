package kvm2

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/digitalocean/go-libvirt"
	"github.com/go-logr/logr"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// ListByTag lists this installation's instances, hosts in the configuration's order. A host that cannot
// be asked fails the list. A domain that vanished meanwhile or cannot be read is left out. Addresses
// are left out, so an active instance is Provisioning here: no guest is ever asked.
func (p *Provider) ListByTag(ctx context.Context) ([]provider.Instance, error) {
	ctx, log := p.begin(ctx, "list")
	lists := make([][]provider.Instance, len(p.config.Hosts))
	errs := make([]error, len(p.config.Hosts))
	var hosts sync.WaitGroup
	for i, host := range p.config.Hosts {
		hosts.Go(func() { lists[i], errs[i] = p.listHost(ctx, host.Name) })
	}
	hosts.Wait()
	var all []provider.Instance
	for i, host := range p.config.Hosts {
		if errs[i] != nil {
			return nil, p.failed(ctx, classifyInCreate, "list host "+host.Name, errs[i])
		}
		all = append(all, lists[i]...)
	}
	log.V(1).Info("instances listed", "hosts", len(lists), "instances", len(all))
	return all, nil
}

func (p *Provider) listHost(ctx context.Context, zone string) ([]provider.Instance, error) {
	c, err := p.hosts.control(ctx, zone)
	if err != nil {
		return nil, err
	}
	domains, err := c.ConnectListAllDomains(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the domains: %w", err)
	}
	var out []provider.Instance
	for _, r := range readDomains(ctx, c, domains) {
		if r.err != nil {
			if !concernsOneDomain(r.err) {
				return nil, r.err
			}
			logr.FromContextOrDiscard(ctx).V(1).Info("a domain is left out of the list: it cannot be read",
				"host", zone, "domain", clip(r.dom.Name), "problem", r.err.Error())
			continue
		}
		if p.owns(r.info) {
			out = append(out, listed(zone, r))
		}
	}
	return out, nil
}

// listed is an instance as a list has it.
func listed(zone string, r reading) provider.Instance {
	inst := instanceOf(zone, r.dom.Name, r.info)
	inst.State = stateOf(r.info, int32(libvirt.DomainShutoff), false)
	if r.info.Active {
		inst.State = stateOf(r.info, int32(libvirt.DomainRunning), false)
	}
	return inst
}

// concernsOneDomain tells a domain that cannot be read from a host that cannot be asked: libvirt
// answered about that one domain, or the answer does not parse.
func concernsOneDomain(err error) bool {
	var unreadable unreadableError
	return isAnswer(err) || errors.As(err, &unreadable)
}
