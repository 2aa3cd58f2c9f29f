package kvm2

import (
	"context"
	"errors"
	"fmt"
	"io"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// diskPaths are the files of an instance's two volumes on its host.
type diskPaths struct {
	overlay, seed string
}

// makeVolumes makes the base image, where it is not there yet, the overlay and the seed. It adds to made
// what was not there before.
func (p *Provider) makeVolumes(ctx context.Context, c conn, plan plan, made *[]volume) (diskPaths, error) {
	_, base, err := p.images.ensure(ctx, c, plan.host, plan.image, imageUser{instance: plan.req.Name, diskBytes: plan.diskBytes()})
	if err != nil {
		return diskPaths{}, err
	}
	pool, err := c.StoragePoolLookupByName(ctx, plan.host.Pool)
	if err != nil {
		return diskPaths{}, fmt.Errorf("look up pool %s: %w", plan.host.Pool, err)
	}
	provider.Report(ctx, provider.Progress{Step: "disk"})
	overlay, err := makeOverlay(ctx, c, pool, plan, base, made)
	if err != nil {
		return diskPaths{}, err
	}
	if err := p.images.stillPublished(ctx, c, plan.host.Pool, plan.image, base); err != nil {
		return diskPaths{}, err
	}
	provider.Report(ctx, provider.Progress{Step: "seed"})
	seed, err := p.makeSeed(ctx, c, pool, plan, made)
	if err != nil {
		return diskPaths{}, err
	}
	return diskPaths{overlay: overlay, seed: seed}, nil
}

// makeOverlay makes the instance's disk, a qcow2 overlay on the base.
func makeOverlay(ctx context.Context, c backend, p pool, plan plan, basePath string, made *[]volume) (string, error) {
	name := overlayName(plan.req.Name)
	doc, err := overlayVolumeXML(name, plan.diskBytes(), basePath, plan.image.Format)
	if err != nil {
		return "", err
	}
	vol, err := claimVolume(ctx, c, p, plan.req.Name, name, doc, made, func(old volumeInfo) bool {
		return isFreshOverlay(old, plan.diskBytes(), basePath, plan.image.Format)
	})
	if err != nil {
		return "", err
	}
	return pathOf(ctx, c, vol)
}

// makeSeed writes the seed with the request's user-data. One that an earlier attempt left is written
// over, so it never holds older data.
func (p *Provider) makeSeed(ctx context.Context, c backend, pl pool, plan plan, made *[]volume) (path string, err error) {
	s, err := buildSeed(p.seedSpec(plan.req))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	name, size := seedName(plan.req.Name), uint64(s.Size) //nolint:gosec // a size is not negative
	doc, err := rawVolumeXML(name, size, modePrivate)
	if err != nil {
		return "", err
	}
	vol, err := claimVolume(ctx, c, pl, plan.req.Name, name, doc, made, func(old volumeInfo) bool {
		return isSeedSized(old, size)
	})
	if err != nil {
		return "", err
	}
	if err := p.uploadSeed(ctx, plan.host.Name, vol, s, size); err != nil {
		return "", err
	}
	return pathOf(ctx, c, vol)
}

// isSeedSized reports whether a volume can take a seed of that size. What was made as raw is iso to
// libvirt once an upload has filled it.
func isSeedSized(v volumeInfo, size uint64) bool {
	return (v.Format == provider.FormatRaw || v.Format == "iso") && v.Capacity == size
}

// uploadSeed uses a channel of its own, so that a stream that breaks takes no control call with it.
func (p *Provider) uploadSeed(ctx context.Context, zone string, vol volume, r io.Reader, size uint64) (err error) {
	c, err := p.hosts.secondary(ctx, zone)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.StorageVolUpload(ctx, vol, r, size); err != nil {
		return fmt.Errorf("upload volume %s: %w", vol.Name, err)
	}
	return nil
}

func pathOf(ctx context.Context, c backend, vol volume) (string, error) {
	path, err := c.StorageVolGetPath(ctx, vol)
	if err != nil {
		return "", fmt.Errorf("path of volume %s: %w", vol.Name, err)
	}
	return path, nil
}
