package kvm2

import (
	"context"
	"errors"
	"fmt"

	"github.com/digitalocean/go-libvirt"
	"github.com/go-logr/logr"
)

// removeAbandoned removes the bases that a Create of the instance began to transfer and that were never
// published. Who calls Delete has ended the Create (contract R12.5), and its transfer with it, unless
// this process carries it on for others. So no writer is robbed, however young the volume is.
func (i *images) removeAbandoned(ctx context.Context, c backend, p pool, instance string) error {
	tag := attemptTag(instance)
	removed, err := removeUnpublished(ctx, c, p, func(name string) bool {
		base, ok := parseBase(name)
		return ok && base.tag == tag && !i.flights.writing(name)
	})
	if removed > 0 {
		logr.FromContextOrDiscard(ctx).V(1).Info("removed what an interrupted image transfer left",
			"pool", p.Name, "instance", instance, "volumes", removed)
	}
	return err
}

// removeUnpublished removes those of the pool's bases that the caller takes for dead, and gives their
// number. It spares one that is published, and one that a volume stands on although its marker was
// lost: somebody's disk needs it.
func removeUnpublished(ctx context.Context, c backend, p pool, isDead func(name string) bool) (removed int, err error) {
	all, err := c.StoragePoolListAllVolumes(ctx, p)
	if err != nil {
		return 0, fmt.Errorf("list the volumes of pool %s: %w", p.Name, err)
	}
	var dead []volume
	for _, vol := range all {
		if !isDead(vol.Name) {
			continue
		}
		// Read first, as a marker is one volume, and what may stand on a base is all of them.
		if is, err := isPublished(ctx, c, p, vol); err != nil {
			return 0, err
		} else if !is {
			dead = append(dead, vol)
		}
	}
	if len(dead) == 0 {
		return 0, nil
	}
	used, err := backingPaths(ctx, c, all)
	if err != nil {
		return 0, err
	}
	for _, vol := range dead {
		if used[vol.Key] {
			continue
		}
		// Read once more: the marker's maker may have been slow, not dead.
		if is, err := isPublished(ctx, c, p, vol); err != nil {
			return removed, err
		} else if is {
			continue
		}
		if err := c.StorageVolDelete(ctx, vol); err != nil && !isLibvirtError(err, libvirt.ErrNoStorageVol) {
			return removed, fmt.Errorf("remove volume %s: %w", vol.Name, err)
		}
		removed++
	}
	return removed, nil
}

// isPublished reports whether the marker vouches for a base.
func isPublished(ctx context.Context, c backend, p pool, vol volume) (bool, error) {
	name, ok := parseBase(vol.Name)
	if !ok {
		return false, nil
	}
	base, err := findPublished(ctx, c, p, name.key)
	if errors.Is(err, errUnpublished) {
		return false, nil
	}
	return base.path == vol.Key, err
}

// backingPaths gives the files that the volumes stand on. A volume that cannot be read is an error: it
// may stand on any.
func backingPaths(ctx context.Context, c backend, all []volume) (map[string]bool, error) {
	used := map[string]bool{}
	for _, vol := range all {
		info, err := readVolume(ctx, c, vol)
		if isLibvirtError(err, libvirt.ErrNoStorageVol) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read volume %s: %w", vol.Name, err)
		}
		used[info.BackingPath] = true
	}
	return used, nil
}
