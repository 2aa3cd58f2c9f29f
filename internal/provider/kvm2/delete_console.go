package kvm2

import (
	"context"
	"fmt"

	"github.com/digitalocean/go-libvirt"
)

// removeConsoleLogs removes what virtlogd wrote for the instance. libvirt did not make these files, so it
// knows of them only after a refresh.
func (p *Provider) removeConsoleLogs(ctx context.Context, c backend, pl pool, name string) error {
	if err := p.images.refresh(ctx, c, pl); err != nil {
		return fmt.Errorf("refresh pool %s: %w", pl.Name, err)
	}
	all, err := c.StoragePoolListAllVolumes(ctx, pl)
	if err != nil {
		return fmt.Errorf("list the volumes of pool %s: %w", pl.Name, err)
	}
	for _, vol := range all {
		if !isConsoleLog(vol.Name, name) {
			continue
		}
		if err := p.checkGone(ctx, c, name); err != nil {
			return err
		}
		if err := c.StorageVolDelete(ctx, vol); err != nil && !isLibvirtError(err, libvirt.ErrNoStorageVol) {
			return fmt.Errorf("delete volume %s: %w", vol.Name, err)
		}
	}
	return nil
}
