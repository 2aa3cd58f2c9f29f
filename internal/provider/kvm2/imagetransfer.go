package kvm2

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/tracing"
)

// transfer brings one image into one pool, on an SSH connection of its own, so that control calls stay
// fast and a cancelled one cannot cut it off.
//
// libvirt cannot rename a volume, so a base is published by its marker, which is made last. Every
// attempt writes to a volume with a name of its own. That makes it safe to be wrong about whether
// another process's attempt is dead: two writers never share a volume, and the marker names the one
// that its writer has verified. An attempt that is removed while its writer lives costs a transfer,
// never a wrong byte. What others left is removed after the own marker was made, when no other attempt
// can be published any more: libvirt lets the file under a running guest be deleted without a word.
type transfer struct {
	images *images
	host   provider.KVMHost
	image  provider.KVMImage
	key    imageKey
	flight *flight
}

func (i *images) transfer(ctx context.Context, t *transfer) (base published, err error) {
	ctx, span := tracing.Start(ctx, "kvm2.download",
		attribute.String(attrHost, t.host.Name), attribute.String("kvm2.image", string(t.key)))
	defer span.End()
	defer func() { spanOutcome(span, err) }()
	c, err := i.hosts.dedicated(ctx, t.host.Name)
	if err != nil {
		return published{}, err
	}
	defer func() { _ = c.Close() }() // nothing depends on how it ends
	base, err = t.run(ctx, c)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		err = provider.Errorf(provider.ErrTransient, provider.ReasonTimeout, "the transfer to host %s did not end within %v: %w", t.host.Name, i.limits.transfer, err)
	}
	return base, err
}

func (t *transfer) run(ctx context.Context, c conn) (published, error) {
	p, err := c.StoragePoolLookupByName(ctx, t.host.Pool)
	if err != nil {
		return published{}, fmt.Errorf("look up pool %s: %w", t.host.Pool, err)
	}
	if err := checkPoolType(ctx, c, p); err != nil {
		return published{}, err
	}
	base, err := t.awaitOthers(ctx, c, p)
	if !errors.Is(err, errUnpublished) {
		return base, err
	}
	started := time.Now()
	base, err = t.download(ctx, c, p)
	if err != nil {
		return published{}, err
	}
	logr.FromContextOrDiscard(ctx).V(1).Info("image transferred", "host", t.host.Name, "pool", p.Name,
		"volume", base.volume.Name, "duration", time.Since(started))
	// What another process began meanwhile and lost the race with, or left when it was killed.
	t.sweep(ctx, c, p, base.volume.Name)
	return base, nil
}

// download gets the image into a new volume and publishes it. The volume of a failed attempt is removed.
func (t *transfer) download(ctx context.Context, c conn, p pool) (base published, err error) {
	d, err := t.images.fetch.open(ctx, t.image.URL)
	if err != nil {
		return published{}, err
	}
	defer func() { _ = d.Close() }() // all of it was read, or an error came before
	body := newImageReader(d, d.length, t.report)
	// Judged before anything is made on the host.
	head, err := body.peek(headBytes)
	if err != nil {
		return published{}, err
	}
	virtualSize, err := checkFormat(head, d.length, t.image.Format)
	if err != nil {
		return published{}, err
	}
	disk := t.flight.largestDisk()
	if err := checkFits(virtualSize, disk); err != nil {
		return published{}, err
	}
	if err := t.makeRoom(ctx, c, p, d.length, disk); err != nil {
		return published{}, err
	}
	name := t.key.newBase(t.flight.instance, t.image.Format)
	t.flight.writes(name)
	base, err = t.fill(ctx, c, p, name, body, virtualSize)
	var offered markerUnknownError
	switch {
	case errors.As(err, &offered): // it may be published and in use; if it is, the next call finds it
	case err != nil, base.volume.Name != name:
		t.discard(ctx, name)
	}
	return base, err
}

// makeRoom refreshes the pool first: libvirt knows its free space as of the last time. Only where there
// is no room otherwise, what killed processes left is removed before anything was published.
func (t *transfer) makeRoom(ctx context.Context, c conn, p pool, imageBytes, diskBytes uint64) error {
	t.tryRefresh(ctx, c, p)
	err := checkPoolSpace(ctx, c, p, imageBytes, diskBytes)
	if !errors.Is(err, provider.ErrQuotaExceeded) || t.sweep(ctx, c, p, "") == 0 {
		return err
	}
	t.tryRefresh(ctx, c, p)
	return checkPoolSpace(ctx, c, p, imageBytes, diskBytes)
}

// tryRefresh is for where not being able to is no reason to stop.
func (t *transfer) tryRefresh(ctx context.Context, c conn, p pool) {
	if err := t.refresh(ctx, c, p); err != nil {
		logr.FromContextOrDiscard(ctx).V(2).Info("the pool was not refreshed", "host", t.host.Name, "pool", p.Name, "problem", err.Error())
	}
}

func makeBase(ctx context.Context, c conn, p pool, name string, length uint64) (volume, error) {
	doc, err := rawVolumeXML(name, length, modeShared)
	if err != nil {
		return volume{}, err
	}
	vol, err := c.StorageVolCreateXML(ctx, p, doc)
	if err != nil {
		return volume{}, fmt.Errorf("make volume %s: %w", name, err)
	}
	return vol, nil
}

// fill makes the volume, uploads, verifies and publishes.
func (t *transfer) fill(ctx context.Context, c conn, p pool, name string, body *imageReader, virtualSize uint64) (published, error) {
	vol, err := makeBase(ctx, c, p, name, body.length)
	if err != nil {
		return published{}, err
	}
	if err := c.StorageVolUpload(ctx, vol, body, body.length); err != nil {
		if failed := body.failure(); failed != nil {
			return published{}, failed
		}
		return published{}, fmt.Errorf("upload volume %s: %w", vol.Name, err)
	}
	if err := t.checkSum(body); err != nil {
		return published{}, err
	}
	// The refresh tells libvirt the format and size of what is now in the volume.
	if err := t.refresh(ctx, c, p); err != nil {
		return published{}, fmt.Errorf("refresh pool %s: %w", p.Name, err)
	}
	return t.publish(ctx, c, p, vol, body.length, virtualSize)
}

func (t *transfer) checkSum(body *imageReader) error {
	got := body.sha256()
	if t.image.InsecureSkipChecksum || got == t.image.SHA256 {
		return nil
	}
	return provider.Errorf(provider.ErrPermanent, provider.ReasonImageChecksumMismatch,
		"its sha256 is %s, and the configuration says %s: if the image was published anew, say its new sha256", got, t.image.SHA256)
}

// refresh waits a little for volume jobs of others, which libvirt does not refresh beside.
func (t *transfer) refresh(ctx context.Context, c conn, p pool) error {
	return t.images.refresh(ctx, c, p)
}

// publish makes the marker. Where another process has published meanwhile, its base is the one.
func (t *transfer) publish(ctx context.Context, c conn, p pool, vol volume, length, virtualSize uint64) (published, error) {
	own := published{volume: vol, format: t.image.Format, virtualSize: virtualSize}
	err := checkUploaded(ctx, c, vol, length)
	if err == nil {
		own.path, err = c.StorageVolGetPath(ctx, vol)
	}
	if err == nil {
		err = t.makeMarker(ctx, c, p, own)
	}
	if isLibvirtError(err, libvirt.ErrStorageVolExist) {
		return t.settle(ctx, c, p, own)
	}
	if err == nil {
		return own, nil
	}
	// Another process may have taken this attempt for dead and removed it, at any of these steps.
	if errors.Is(checkUploaded(ctx, c, vol, length), errUnpublished) {
		return findPublished(ctx, c, p, t.key)
	}
	if isUnreadable(err) {
		err = invalidImage("cannot be read by QEMU on the host: %w", clipped(err))
	}
	return published{}, fmt.Errorf("publish volume %s: %w", vol.Name, err)
}

// checkUploaded asks the host for the file's length: libvirt has called short uploads complete.
func checkUploaded(ctx context.Context, c backend, vol volume, length uint64) error {
	info, err := readVolume(ctx, c, vol)
	if err != nil {
		return unpublishedIfGone(err, "read volume %s", vol.Name)
	}
	if info.Physical != 0 && info.Physical != length {
		return provider.Errorf(provider.ErrTransient, provider.ReasonBackendError,
			"volume %s holds %d bytes after an upload of %d", vol.Name, info.Physical, length)
	}
	return nil
}

// settle takes the base of the marker that is there already. A marker without its base is replaced.
func (t *transfer) settle(ctx context.Context, c conn, p pool, own published) (published, error) {
	other, err := findPublished(ctx, c, p, t.key)
	if !errors.Is(err, errUnpublished) {
		return other, err
	}
	stale, err := c.StorageVolLookupByName(ctx, p, t.key.marker())
	if err == nil {
		err = c.StorageVolDelete(ctx, stale)
	}
	if err != nil && !isLibvirtError(err, libvirt.ErrNoStorageVol) {
		return published{}, fmt.Errorf("remove the marker %s, whose base is gone: %w", t.key.marker(), err)
	}
	if err := t.makeMarker(ctx, c, p, own); err != nil {
		return published{}, fmt.Errorf("make the marker %s: %w", t.key.marker(), err)
	}
	return own, nil
}

// makeMarker has QEMU on the host open the base, so it is also the proof that it can.
func (t *transfer) makeMarker(ctx context.Context, c conn, p pool, own published) error {
	doc, err := overlayVolumeXML(t.key.marker(), own.virtualSize, own.path, own.format)
	if err != nil {
		return err
	}
	_, err = c.StorageVolCreateXML(ctx, p, doc)
	var answer libvirt.Error
	if err != nil && !errors.As(err, &answer) {
		return markerUnknownError{err}
	}
	return err
}

// markerUnknownError is what came in place of libvirt's answer: the marker may have been made, or may
// be a moment later, and others may use the base.
type markerUnknownError struct{ error }

func (e markerUnknownError) Unwrap() error { return e.error }

// isUnreadable recognises qemu-img's failure to open an image, whose bytes have been verified.
func isUnreadable(err error) bool {
	return isLibvirtError(err, libvirt.ErrInternalError) && strings.Contains(err.Error(), "qemu-img") &&
		provider.ReasonOf(classify("", err)) == provider.ReasonBackendError
}

// discard removes the volume of this attempt, also when the transfer was cancelled: on a context of its
// own, with a limit, and over the control connection, as the transfer's own may be what failed. That is
// one call and no login, which is what Close has time for. What cannot be removed now is removed by the
// Delete of the instance or by the next transfer of the image.
func (t *transfer) discard(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.images.limits.cleanup)
	defer cancel()
	c, err := t.images.hosts.control(ctx, t.host.Name)
	if err == nil {
		err = c.StorageVolDelete(ctx, volume{Pool: t.host.Pool, Name: name})
	}
	if err != nil && !isLibvirtError(err, libvirt.ErrNoStorageVol) {
		logr.FromContextOrDiscard(ctx).V(1).Info("the volume of a failed image transfer is left; deleting the instance or the next transfer removes it",
			"host", t.host.Name, "volume", name, "problem", err.Error())
	}
}

func (t *transfer) report(done, total uint64) {
	t.flight.report(provider.Progress{Step: "image transfer", Done: int64(done), Total: int64(total)}) //nolint:gosec // an HTTP length fits
}

// pause waits for the next look at something that others do.
func (t *transfer) pause(ctx context.Context) error { return t.images.pause(ctx) }
