package kvm2

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/go-logr/logr"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// growth tells one look at a volume from the next while somebody writes to it.
type growth struct {
	allocation uint64
	modified   string
}

// awaitOthers gives the base when it is published, by this or another process, and errUnpublished when
// nobody is at it any more. While another process's attempt grows, it waits: two transfers of one image
// would be half as fast. One that shows no progress for a while belongs to a process that was
// killed, and must not make its successor wait any longer.
func (t *transfer) awaitOthers(ctx context.Context, c conn, p pool) (published, error) {
	var before map[string]growth
	lastGrowth := time.Now()
	for {
		if base, err := findPublished(ctx, c, p, t.key); err == nil {
			return base, nil
		} else if !errors.Is(err, errUnpublished) {
			return published{}, err
		}
		now, err := t.attempts(ctx, c, p)
		if err != nil {
			return published{}, err
		}
		if before != nil && !maps.Equal(before, now) {
			lastGrowth = time.Now()
		}
		if len(now) == 0 || time.Since(lastGrowth) >= t.images.limits.quiet {
			return published{}, errUnpublished
		}
		before = now
		t.reportOthers(now)
		if err := t.pause(ctx); err != nil {
			return published{}, err
		}
	}
}

// attempts reads the bases of the key that are there, whoever makes or made them.
func (t *transfer) attempts(ctx context.Context, c conn, p pool) (map[string]growth, error) {
	all, err := c.StoragePoolListAllVolumes(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("list the volumes of pool %s: %w", p.Name, err)
	}
	out := map[string]growth{}
	for _, vol := range all {
		if !t.key.isBase(vol.Name) {
			continue
		}
		info, err := readVolume(ctx, c, vol)
		if isLibvirtError(err, libvirt.ErrNoStorageVol) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read volume %s: %w", vol.Name, err)
		}
		out[vol.Name] = growth{allocation: info.Allocation, modified: info.Modified}
	}
	return out, nil
}

func (t *transfer) reportOthers(attempts map[string]growth) {
	var most uint64
	for _, g := range attempts {
		most = max(most, g.allocation)
	}
	t.flight.report(provider.Progress{Step: "image transfer by another process", Done: int64(most)})
}

// sweep removes the bases of the key that no marker vouches for, but keep, and gives their number. It is
// not what the caller came for, so a failure is logged, and the next transfer of the image sweeps again.
func (t *transfer) sweep(ctx context.Context, c conn, p pool, keep string) int {
	removed, err := removeUnpublished(ctx, c, p, func(name string) bool { return t.key.isBase(name) && name != keep })
	log := logr.FromContextOrDiscard(ctx).WithValues("host", t.host.Name, "pool", p.Name)
	if err != nil {
		log.V(1).Info("what an interrupted image transfer left is still there", "problem", err.Error())
	}
	if removed > 0 {
		log.V(1).Info("removed what an interrupted image transfer left", "volumes", removed)
	}
	return removed
}
