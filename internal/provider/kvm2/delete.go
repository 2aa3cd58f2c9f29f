package kvm2

import (
	"context"
	"fmt"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Delete removes the instance and its volumes, and returns nil when nothing of them is left, also when
// nothing was there. A host that is not configured cannot be asked: the nil for it is no proof.
func (p *Provider) Delete(ctx context.Context, id string) error {
	ctx, log := p.begin(ctx, "delete")
	started := time.Now()
	zone, name, err := parseProviderID(id)
	if err != nil {
		return p.failed(ctx, classifyInCreate, "delete", err)
	}
	host, ok := p.host(zone)
	if !ok {
		log.V(1).Info("nothing to delete: the host is not configured", "id", id)
		return nil
	}
	if err := p.delete(ctx, host, name); err != nil {
		return p.failed(ctx, classifyInCreate, "delete "+id, err)
	}
	log.V(1).Info("instance is gone", "id", id, "duration", time.Since(started).String())
	return nil
}

// delete removes the domain first: its disks may go only when libvirt says that it does not run.
func (p *Provider) delete(ctx context.Context, host provider.KVMHost, name string) error {
	unlock, err := p.names.lock(ctx, name)
	if err != nil {
		return fmt.Errorf("wait for another call of this name: %w", err)
	}
	defer unlock()
	c, err := p.hosts.control(ctx, host.Name)
	if err != nil {
		return err
	}
	stood, err := p.removeDomain(ctx, c, name)
	if err != nil {
		return err
	}
	pl, defined, err := poolToClean(ctx, c, host.Pool, name)
	if err != nil || !defined {
		return err
	}
	if err := p.removeVolumes(ctx, c, pl, name, stood); err != nil {
		return err
	}
	return p.images.removeAbandoned(ctx, c, pl, name)
}
