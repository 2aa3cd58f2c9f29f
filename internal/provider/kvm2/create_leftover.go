package kvm2

import (
	"context"
	"fmt"

	"github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// freshOverlayMax is what a qcow2 overlay takes on disk at most before a guest has written to it: the
// header and its first tables, about 200 KiB. A guest that boots writes many clusters of 64 KiB.
const freshOverlayMax = 1 << 20

// claimVolume makes the volume that doc describes. A volume of that name is what an earlier attempt
// left, or what another process is just making: libvirt refuses the second of one name. It is taken as
// it is where reuse says that it will do, which also lets two processes of one request meet without
// harm, and replaced where not. Neither happens while a domain uses it. A volume that this call made is
// added to made.
func claimVolume(ctx context.Context, c backend, p pool, instance, name, doc string, made *[]volume, reuse func(volumeInfo) bool) (volume, error) {
	vol, err := c.StorageVolCreateXML(ctx, p, doc)
	if err == nil {
		*made = append(*made, vol)
		return vol, nil
	}
	if !isLibvirtError(err, libvirt.ErrStorageVolExist) {
		return volume{}, fmt.Errorf("make volume %s: %w", name, err)
	}
	old, err := c.StorageVolLookupByName(ctx, p, name)
	if err != nil {
		return volume{}, fmt.Errorf("look up volume %s: %w", name, err)
	}
	if err := checkUnused(ctx, c, instance, old); err != nil {
		return volume{}, err
	}
	if usable, err := canReuse(ctx, c, old, reuse); err != nil || usable {
		return old, err
	}
	if err := c.StorageVolDelete(ctx, old); err != nil && !isLibvirtError(err, libvirt.ErrNoStorageVol) {
		return volume{}, fmt.Errorf("remove the old volume %s: %w", name, err)
	}
	if vol, err = c.StorageVolCreateXML(ctx, p, doc); err != nil {
		return volume{}, fmt.Errorf("make volume %s: %w", name, err)
	}
	*made = append(*made, vol)
	return vol, nil
}

// canReuse reads the volume. One whose file is gone is not of use: libvirt's listing is older than
// the directory.
func canReuse(ctx context.Context, c backend, old volume, reuse func(volumeInfo) bool) (bool, error) {
	info, err := readVolume(ctx, c, old)
	if isLibvirtError(err, libvirt.ErrNoStorageVol) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read volume %s: %w", old.Name, err)
	}
	return reuse(info), nil
}

// isFreshOverlay reports whether a volume is the overlay that would be made now, and no guest has
// written to it yet.
func isFreshOverlay(v volumeInfo, diskBytes uint64, basePath, baseFormat string) bool {
	return v.Format == provider.FormatQCOW2 && v.Capacity == diskBytes && v.Allocation <= freshOverlayMax &&
		v.BackingPath == basePath && v.BackingFormat == baseFormat
}
