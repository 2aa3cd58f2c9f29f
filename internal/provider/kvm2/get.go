package kvm2

import (
	"context"
	"fmt"

	"github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Get reads one instance. ErrNotFound comes only of libvirt's own "no such domain", and for a domain
// that does not carry this installation's mark. It does not wait for a Create or Delete of the name.
func (p *Provider) Get(ctx context.Context, id string) (provider.Instance, error) {
	ctx, log := p.begin(ctx, "get")
	inst, err := p.get(ctx, id)
	if err != nil {
		return provider.Instance{}, p.failed(ctx, classify, "get "+clip(id), err)
	}
	log.V(1).Info("instance read", "id", id, "state", inst.State, "addresses", inst.Addresses)
	return inst, nil
}

// found is an instance of ours, as it stands on its host.
type found struct {
	standing
	conn       conn
	host       provider.KVMHost
	zone, name string
}

// lookUp finds the instance of an ID, or says as Get does why there is none.
func (p *Provider) lookUp(ctx context.Context, id string) (found, error) {
	zone, name, err := parseProviderID(id)
	if err != nil {
		return found{}, err
	}
	host, ok := p.host(zone)
	if !ok {
		return found{}, provider.Errorf(provider.ErrPermanent, provider.ReasonHostNotConfigured,
			"host %s is not among the entry's hosts: put it back, or give the instance up", zone)
	}
	c, err := p.hosts.control(ctx, zone)
	if err != nil {
		return found{}, err
	}
	s, err := look(ctx, c, name)
	if err != nil {
		return found{}, err
	}
	if !s.found || !p.owns(s.info) {
		return found{}, provider.Errorf(provider.ErrNotFound, provider.ReasonNotFound,
			"host %s has no instance %s of this installation", zone, name)
	}
	return found{s, c, host, zone, name}, nil
}

func (p *Provider) get(ctx context.Context, id string) (provider.Instance, error) {
	f, err := p.lookUp(ctx, id)
	if err != nil {
		return provider.Instance{}, err
	}
	c, s, zone, name := f.conn, f.standing, f.zone, f.name
	state, reason, err := c.DomainGetState(ctx, s.dom)
	if err != nil {
		// Gone since it was read: classify makes that NotFound, and anything else a doubt.
		return provider.Instance{}, fmt.Errorf("state of domain %s: %w", name, err)
	}
	inst := instanceOf(zone, name, s.info)
	address, err := p.addressOf(ctx, c, s, state)
	if err != nil {
		return provider.Instance{}, err
	}
	if address != "" {
		inst.Addresses = []string{address}
	}
	inst.State = stateOf(s.info, state, address != "")
	if isStarting(state, reason) {
		inst.State = provider.StateProvisioning // a Create is at work, or libvirt goes on with a dead one's
	}
	return inst, nil
}

// addressOf gives the address of a running instance, or "".
func (p *Provider) addressOf(ctx context.Context, c backend, s standing, state int32) (string, error) {
	if s.info.Mark.UID == "" || !isRunning(state) {
		return "", nil
	}
	return guestAddress(ctx, c, s.dom, s.info)
}

// instanceOf is what a domain's definition says of an instance: everything but state and addresses.
func instanceOf(zone, name string, info domainInfo) provider.Instance {
	return provider.Instance{
		ID: formatProviderID(zone, name), Name: name, UID: info.Mark.UID, Owner: info.Mark.Owner, Ref: info.Mark.Ref,
		MACs: info.MACs, CreatedAt: info.Mark.CreatedAt, Zone: zone,
	}
}

// stateOf is the instance's state. One whose mark has no UID is half made, whatever its domain does:
// Create finishes it.
func stateOf(info domainInfo, state int32, hasIP bool) provider.State {
	if info.Mark.UID == "" {
		return provider.StateProvisioning
	}
	return mapState(state, hasIP)
}

// isRunning reports whether a domain executes: the states from which no start is needed.
func isRunning(state int32) bool {
	return state == int32(libvirt.DomainRunning) || state == int32(libvirt.DomainBlocked)
}
