package kvm2

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Images lists the base images in a host's pool.
func (p *Provider) Images(ctx context.Context, zone string) ([]provider.BaseImage, error) {
	ctx, log := p.begin(ctx, "images")
	list, err := p.listImages(ctx, zone)
	if err != nil {
		return nil, p.failed(ctx, classifyInCreate, "list the images of host "+clip(zone), err)
	}
	log.V(1).Info("images listed", "host", zone, "images", len(list))
	return list, nil
}

func (p *Provider) listImages(ctx context.Context, zone string) ([]provider.BaseImage, error) {
	host, err := p.zone(zone)
	if err != nil {
		return nil, err
	}
	c, err := p.hosts.control(ctx, zone)
	if err != nil {
		return nil, err
	}
	s, err := p.images.takeStock(ctx, c, host.Pool)
	if err != nil {
		return nil, err
	}
	out := make([]provider.BaseImage, 0, len(s.bases))
	for _, b := range s.bases {
		out = append(out, p.baseImage(s, b))
	}
	return out, nil
}

func (p *Provider) baseImage(s stock, b stockedBase) provider.BaseImage {
	img := provider.BaseImage{
		Name: b.volume.Name, SHA256: b.key.sha256(), SizeBytes: b.info.Allocation,
		State: p.images.stateOf(s, b), UsedBy: b.users, ModifiedAt: modified(b.info.Modified), Images: []string{},
	}
	for _, name := range slices.Sorted(maps.Keys(p.config.Images)) {
		configured := p.config.Images[name]
		if key, err := keyOf(configured); err == nil && key == b.key {
			img.Images = append(img.Images, name)
			img.URL = shownURL(configured.URL)
		}
	}
	return img
}

// stateOf goes by the marker and by the age. The time of the last write is the host's: one that lies in
// the future, or that libvirt does not tell, counts as young.
func (i *images) stateOf(s stock, b stockedBase) provider.ImageState {
	switch at := modified(b.info.Modified); {
	case s.published(b):
		return provider.ImageReady
	case at.IsZero() || time.Since(at) < i.limits.transfer:
		return provider.ImageWriting
	}
	return provider.ImageLeft
}

// RemoveImage removes a base that nothing uses, and its marker.
func (p *Provider) RemoveImage(ctx context.Context, zone, name string) error {
	ctx, log := p.begin(ctx, "remove-image")
	host, err := p.zone(zone)
	if err == nil {
		err = p.removeImage(ctx, host, name)
	}
	if err != nil {
		return p.failed(ctx, classifyInCreate, "remove the image "+clip(name)+" of host "+clip(zone), err)
	}
	log.V(1).Info("image is gone", "host", zone, "volume", name)
	return nil
}

// removeImage takes the marker first, then looks again who uses the base, then removes it. A Create
// makes its overlay first, then looks whether the marker still vouches for the base (stillPublished).
// So either this look sees the overlay, and the base stays, or that one sees no marker, and the Create
// ends as transient and gets the image anew: the two can meet at any point, however slow either is.
//
// The marker is never put back. Of a removal that ends in the middle a base without a marker is left,
// which no Create takes; the next transfer of the image, or the next removal, removes it.
func (p *Provider) removeImage(ctx context.Context, host provider.KVMHost, name string) error {
	named, ok := parseBase(name)
	if !ok {
		return provider.Errorf(provider.ErrPermanent, provider.ReasonInvalidRequest, "%q is not the name of a base image", clip(name))
	}
	key := named.key
	c, err := p.hosts.control(ctx, host.Name)
	if err != nil {
		return err
	}
	s, base, err := p.images.unused(ctx, c, host.Pool, name)
	switch {
	case err != nil:
		return ignoreGone(err)
	case s.published(base):
		marker := volume{Pool: s.pool.Name, Name: key.marker(), Key: markerPath(base.volume.Key, key)}
		if err := c.StorageVolDelete(ctx, marker); err != nil && !isLibvirtError(err, libvirt.ErrNoStorageVol) {
			return fmt.Errorf("remove the marker %s: %w", key.marker(), err)
		}
		if s, base, err = p.images.unused(ctx, c, host.Pool, name); err != nil {
			return ignoreGone(err)
		}
		if s.published(base) {
			return provider.Errorf(provider.ErrTransient, reasonBusy, "another process has just published the image again: try again later")
		}
	case p.images.stateOf(s, base) == provider.ImageWriting:
		return provider.Errorf(provider.ErrTransient, reasonBusy,
			"a transfer may still be writing the image: it can be removed when it has been untouched for %v", p.images.limits.transfer)
	}
	if err := c.StorageVolDelete(ctx, base.volume); err != nil && !isLibvirtError(err, libvirt.ErrNoStorageVol) {
		return fmt.Errorf("remove volume %s: %w", name, err)
	}
	return nil
}

// errNoBase: the pool has no base of that name.
var errNoBase = errors.New("no such base")

func ignoreGone(err error) error {
	if errors.Is(err, errNoBase) {
		return nil
	}
	return err
}

// unused takes stock and gives the base, unless something uses it.
func (i *images) unused(ctx context.Context, c backend, poolName, name string) (stock, stockedBase, error) {
	s, err := i.takeStock(ctx, c, poolName)
	if err != nil {
		return stock{}, stockedBase{}, err
	}
	base, ok := s.find(name)
	switch {
	case !ok:
		return stock{}, stockedBase{}, errNoBase
	case len(base.users) > 0:
		return stock{}, stockedBase{}, provider.Errorf(provider.ErrPermanent, provider.ReasonImageInUse,
			"%s uses the image, so it stays: delete that first if nobody needs it", firstFew(base.users))
	}
	return s, base, nil
}

// firstFew names the first few of many.
func firstFew(names []string) string {
	const most = 3
	text := strings.Join(names[:min(most, len(names))], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// stillPublished makes sure, after an overlay was made, that the marker still vouches for the overlay's
// base: see removeImage. It reads the marker without looking it up, which is one call.
func (i *images) stillPublished(ctx context.Context, c backend, poolName string, img provider.KVMImage, basePath string) error {
	key, err := keyOf(img)
	if err != nil {
		return err
	}
	info, err := readVolume(ctx, c, volume{Pool: poolName, Name: key.marker(), Key: markerPath(basePath, key)})
	switch {
	case err != nil && !isLibvirtError(err, libvirt.ErrNoStorageVol):
		return fmt.Errorf("read the marker %s: %w", key.marker(), err)
	case err != nil || info.BackingPath != basePath:
		return provider.Errorf(provider.ErrTransient, reasonBusy,
			"the image was removed from the pool while the disk was being made from it: it is brought there again by the next attempt")
	}
	return nil
}
