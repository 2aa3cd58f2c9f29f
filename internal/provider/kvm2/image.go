package kvm2

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// imageLimits bound the waits of a transfer. Tests shorten them.
type imageLimits struct {
	// transfer is for all of it; idle for a server that sends nothing.
	transfer, idle time.Duration
	// poll is the time between two looks at another process's transfer, quiet how long that may show
	// no progress before it counts as dead.
	poll, quiet time.Duration
	// cleanup is for removing what a failed or cancelled transfer left.
	cleanup time.Duration
}

func defaultImageLimits() imageLimits {
	return imageLimits{
		transfer: 20 * time.Minute, idle: time.Minute,
		poll: time.Second, quiet: 5 * time.Second,
		cleanup: 20 * time.Second,
	}
}

// images brings base images into the hosts' pools.
type images struct {
	hosts   *hosts
	fetch   *fetcher
	flights *flights
	limits  imageLimits
}

func newImages(h *hosts) *images { return newImagesWithin(h, defaultImageLimits()) }

func newImagesWithin(h *hosts, l imageLimits) *images {
	return &images{hosts: h, fetch: newFetcher(l.idle), flights: newFlights(l.transfer), limits: l}
}

// Close cancels every transfer and waits for its cleaning up, within the limit for that.
func (i *images) Close() {
	i.flights.Close()
	i.fetch.Close()
}

// published is a base that a marker vouches for.
type published struct {
	volume volume
	path   string
	format string
	// virtualSize is the size in bytes of the disk that a guest sees.
	virtualSize uint64
}

// ensure gives the base volume of the image in the host's pool and its path, and brings it there first
// where it is not: once, however many callers ask, each of whom gets the progress reports. With the
// base in place no request is made over the network. It returns within a moment of ctx's end; the
// transfer goes on as long as another caller waits for it. Errors are of a class, never ErrNotFound.
//
// ErrPermanent: the image is not there, is not what its sha256 says, is no image of its format, or
// holds a larger disk than the user wants. ErrQuotaExceeded: the pool has no room for image and disk.
func (i *images) ensure(ctx context.Context, c backend, host provider.KVMHost, img provider.KVMImage, user imageUser) (volume, string, error) {
	base, err := i.find(ctx, c, host, img, user)
	if err != nil {
		return volume{}, "", classifyInCreate("", fmt.Errorf("image %s: %w", shownURL(img.URL), err))
	}
	return base.volume, base.path, nil
}

// imageUser is what an image is wanted for.
type imageUser struct {
	instance  string // its name
	diskBytes uint64 // the size of its disk
}

func (i *images) find(ctx context.Context, c backend, host provider.KVMHost, img provider.KVMImage, user imageUser) (published, error) {
	key, err := keyOf(img)
	if err != nil {
		return published{}, err
	}
	p, err := c.StoragePoolLookupByName(ctx, host.Pool)
	if err != nil {
		return published{}, fmt.Errorf("look up pool %s: %w", host.Pool, err)
	}
	base, err := findPublished(ctx, c, p, key)
	if errors.Is(err, errUnpublished) {
		id := flightID{host: host.Name, pool: host.Pool, key: key}
		base, err = i.flights.do(ctx, id, user, func(ctx context.Context, f *flight) (published, error) {
			return i.transfer(ctx, &transfer{images: i, host: host, image: img, key: key, flight: f})
		})
	}
	if errors.Is(err, errUnpublished) {
		return published{}, provider.Errorf(provider.ErrTransient, reasonBusy,
			"another process took the transfer to host %s over: try again in a moment", host.Name)
	}
	if err != nil {
		return published{}, err
	}
	if base.format != img.Format {
		return published{}, invalidImage("is %s, and the configuration says %s", clip(base.format), img.Format)
	}
	if err := checkFits(base.virtualSize, user.diskBytes); err != nil {
		return published{}, err
	}
	return base, checkPoolSpace(ctx, c, p, 0, user.diskBytes)
}

// errUnpublished: no marker, or one whose base is gone.
var errUnpublished = errors.New("the image is not in the pool")

// findPublished reads the marker, which is an empty overlay on the base that it vouches for: it names
// the base's path, format and size by itself, and libvirt makes it only if none of its name exists.
func findPublished(ctx context.Context, c backend, p pool, key imageKey) (published, error) {
	marker, err := c.StorageVolLookupByName(ctx, p, key.marker())
	if err != nil {
		return published{}, unpublishedIfGone(err, "look up the marker %s", key.marker())
	}
	info, err := readVolume(ctx, c, marker)
	if err != nil {
		return published{}, unpublishedIfGone(err, "read the marker %s", key.marker())
	}
	base := volume{Pool: p.Name, Name: path.Base(info.BackingPath), Key: info.BackingPath}
	if !key.isBase(base.Name) {
		return published{}, errUnpublished
	}
	// Read, not looked up: libvirt finds a volume in its listing after the file was removed by hand.
	if _, err := readVolume(ctx, c, base); err != nil {
		return published{}, unpublishedIfGone(err, "read the base %s", base.Name)
	}
	return published{volume: base, path: info.BackingPath, format: info.BackingFormat, virtualSize: info.Capacity}, nil
}

func readVolume(ctx context.Context, c backend, v volume) (volumeInfo, error) {
	doc, err := c.StorageVolGetXMLDesc(ctx, v)
	if err != nil {
		return volumeInfo{}, err
	}
	return parseVolume(doc)
}

func unpublishedIfGone(err error, doing string, args ...any) error {
	if isLibvirtError(err, libvirt.ErrNoStorageVol) {
		return errUnpublished
	}
	return fmt.Errorf(doing+": %w", append(args, err)...)
}
