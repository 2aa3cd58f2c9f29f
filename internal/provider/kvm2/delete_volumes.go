package kvm2

import (
	"context"
	"fmt"

	"github.com/digitalocean/go-libvirt"
	"github.com/go-logr/logr"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// removeVolumes removes the two volumes that belong to the name and its console log, found by their whole
// names and never by a prefix or a backing chain, so that bases, markers and other instances' volumes stay.
//
// stood says that the domain was there and was removed. Where it was not, it may have been renamed, so
// a volume goes only if no domain has it as a disk.
func (p *Provider) removeVolumes(ctx context.Context, c backend, pl pool, name string, stood bool) error {
	for _, vol := range []string{overlayName(name), seedName(name)} {
		if err := p.removeVolume(ctx, c, pl, name, vol, stood); err != nil {
			return err
		}
	}
	return p.removeConsoleLogs(ctx, c, pl, name)
}

// poolToClean gives the pool that holds an instance's volumes. A pool that libvirt does not know has none
// to remove. One that is known and not active still has its files: the calls that follow say so, with
// ErrTransient, PoolNotActive, and the next Delete goes on when it is active.
func poolToClean(ctx context.Context, c backend, name, instance string) (pl pool, defined bool, err error) {
	pl, err = c.StoragePoolLookupByName(ctx, name)
	if isLibvirtError(err, libvirt.ErrNoStoragePool) {
		logr.FromContextOrDiscard(ctx).V(1).Info("the pool is not defined, so it has no volumes to remove", "pool", name, "instance", instance)
		return pool{}, false, nil
	}
	if err != nil {
		return pool{}, false, fmt.Errorf("look up pool %s: %w", name, err)
	}
	return pl, true, nil
}

// removeVolume makes sure once more, immediately before, that nothing stands under the name.
func (p *Provider) removeVolume(ctx context.Context, c backend, pl pool, name, volName string, stood bool) error {
	vol, err := c.StorageVolLookupByName(ctx, pl, volName)
	if isLibvirtError(err, libvirt.ErrNoStorageVol) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look up volume %s: %w", volName, err)
	}
	if !stood {
		if err := checkUnused(ctx, c, name, vol); err != nil {
			return err
		}
	}
	if err := p.checkGone(ctx, c, name); err != nil {
		return err
	}
	err = c.StorageVolDelete(ctx, vol)
	if err != nil && !isLibvirtError(err, libvirt.ErrNoStorageVol) {
		return fmt.Errorf("delete volume %s: %w", volName, err)
	}
	return nil
}

// checkGone looks whether a domain came back under the name since it was removed.
func (p *Provider) checkGone(ctx context.Context, c backend, name string) error {
	s, err := look(ctx, c, name)
	switch {
	case err != nil:
		return err
	case !s.found:
		return nil
	case !p.owns(s.info):
		return notOurs(name, s.info)
	}
	return provider.Errorf(provider.ErrTransient, reasonBusy, "domain %s was made again while it was being deleted", name)
}
