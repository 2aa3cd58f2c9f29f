package kvm2

import (
	"context"
	"fmt"

	"github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// spaceReserve is for the seed, the overlay's own tables and the directory.
const spaceReserve = 16 << 20

// checkPoolSpace makes sure that the pool has room for what is going to be written: the image, where it
// is not there yet, the disk in full although it starts nearly empty, and a reserve. It is
// ErrQuotaExceeded otherwise, and ErrTransient with ReasonPoolNotActive for a pool that is not running.
// libvirt knows the free space as it was at the pool's last refresh; every upload refreshes it.
func checkPoolSpace(ctx context.Context, c backend, p pool, imageBytes, diskBytes uint64) error {
	info, err := c.StoragePoolGetInfo(ctx, p)
	if err != nil {
		return fmt.Errorf("read pool %s: %w", p.Name, err)
	}
	switch libvirt.StoragePoolState(info.State) {
	case libvirt.StoragePoolRunning, libvirt.StoragePoolDegraded:
	default:
		return provider.Errorf(provider.ErrTransient, provider.ReasonPoolNotActive,
			"pool %s is not running: %s", p.Name, advicePool)
	}
	needed := imageBytes + diskBytes + spaceReserve
	if needed < imageBytes || info.Available < needed { // the sum of two sizes may not fit
		return provider.Errorf(provider.ErrQuotaExceeded, provider.ReasonQuotaExceeded,
			"pool %s has %s available and %s are needed: %s", p.Name, gibibytes(info.Available), gibibytes(needed), adviceSpace)
	}
	return nil
}

// gibibytes gives a size for people.
func gibibytes(n uint64) string { return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30)) }
