package kvm2

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/digitalocean/go-libvirt"
)

// stock is what a pool holds of base images, and what stands on them anywhere on the host.
type stock struct {
	pool    pool
	bases   []stockedBase
	markers map[imageKey]string // the file that each marker vouches for
}

// stockedBase is one base with the names of what uses it.
type stockedBase struct {
	volume volume
	key    imageKey
	info   volumeInfo
	users  []string
}

// published says that a marker vouches for the base.
func (s stock) published(b stockedBase) bool {
	return path.Base(s.markers[b.key]) == b.volume.Name
}

// find gives the base of that name.
func (s stock) find(name string) (stockedBase, bool) {
	i := slices.IndexFunc(s.bases, func(b stockedBase) bool { return b.volume.Name == name })
	if i < 0 {
		return stockedBase{}, false
	}
	return s.bases[i], true
}

// takeStock reads every volume of every active pool, and every domain. The image's own pool is refreshed
// first, because an overlay that was made by hand is in no listing before. A volume or domain that
// cannot be read may stand on any base, so it is an error.
func (i *images) takeStock(ctx context.Context, c backend, poolName string) (stock, error) {
	p, err := c.StoragePoolLookupByName(ctx, poolName)
	if err != nil {
		return stock{}, fmt.Errorf("look up pool %s: %w", poolName, err)
	}
	if err := i.refresh(ctx, c, p); err != nil {
		return stock{}, fmt.Errorf("refresh pool %s: %w", poolName, err)
	}
	files, err := readPools(ctx, c, poolName)
	if err != nil {
		return stock{}, err
	}
	domains, err := readEveryDomain(ctx, c)
	if err != nil {
		return stock{}, err
	}
	s := stock{pool: p, markers: map[imageKey]string{}}
	for _, f := range files {
		if f.volume.Pool != poolName {
			continue
		}
		if key, ok := markerKey(f.volume.Name); ok {
			s.markers[key] = f.info.BackingPath
		}
		if base, ok := parseBase(f.volume.Name); ok {
			s.bases = append(s.bases, stockedBase{volume: f.volume, key: base.key, info: f.info, users: usersOf(f, files, domains)})
		}
	}
	slices.SortFunc(s.bases, func(a, b stockedBase) int { return strings.Compare(a.volume.Name, b.volume.Name) })
	return s, nil
}

// fileReading is one volume with what its XML says.
type fileReading struct {
	volume volume
	info   volumeInfo
}

// usersOf names what stands on the base: volumes, and domains with a disk that is none of these. A base's
// name is like no other file's, so it is looked for in every backing path however that spells the
// directory. Markers are no users: they are there for the base.
func usersOf(base fileReading, files []fileReading, domains []reading) []string {
	users := []string{}
	var overlays []string
	for _, f := range files {
		if _, marker := markerKey(f.volume.Name); !marker && strings.Contains(f.info.BackingPath, base.volume.Name) {
			users = append(users, "volume "+clip(f.volume.Name))
			overlays = append(overlays, f.volume.Key, f.info.Path)
		}
	}
	for _, r := range domains {
		onOverlay := slices.ContainsFunc(r.info.DiskPaths, func(p string) bool { return slices.Contains(overlays, p) })
		onBase := slices.ContainsFunc(append(slices.Clone(r.info.DiskPaths), r.info.BackingPaths...), func(p string) bool {
			return strings.Contains(p, base.volume.Name)
		})
		if onBase && !onOverlay {
			users = append(users, "domain "+clip(r.dom.Name))
		}
	}
	slices.Sort(users)
	return slices.Compact(users)
}

// readPools reads the volumes of every active pool. Only the image's own pool must be there.
func readPools(ctx context.Context, c backend, own string) ([]fileReading, error) {
	pools, err := c.ConnectListAllStoragePools(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the pools: %w", err)
	}
	var volumes []volume
	for _, p := range pools {
		found, err := c.StoragePoolListAllVolumes(ctx, p)
		if p.Name != own && isLibvirtError(err, libvirt.ErrNoStoragePool, libvirt.ErrOperationInvalid) {
			continue // gone or stopped since it was listed
		}
		if err != nil {
			return nil, fmt.Errorf("list the volumes of pool %s: %w", clip(p.Name), err)
		}
		volumes = append(volumes, found...)
	}
	return readVolumes(ctx, c, volumes)
}

// readVolumes reads volumes, several at once. One that is gone is left out.
func readVolumes(ctx context.Context, c backend, volumes []volume) ([]fileReading, error) {
	infos, errs := make([]volumeInfo, len(volumes)), make([]error, len(volumes))
	var next atomic.Int64
	var readers sync.WaitGroup
	for range min(readsInFlight, len(volumes)) {
		readers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(volumes); i = int(next.Add(1)) - 1 {
				infos[i], errs[i] = readVolume(ctx, c, volumes[i])
			}
		})
	}
	readers.Wait()
	var out []fileReading
	for i, v := range volumes {
		switch {
		case isLibvirtError(errs[i], libvirt.ErrNoStorageVol):
		case errs[i] != nil:
			return nil, fmt.Errorf("read volume %s: %w", clip(v.Name), errs[i])
		default:
			out = append(out, fileReading{v, infos[i]})
		}
	}
	return out, nil
}

// readEveryDomain reads all domains of the host, others' included.
func readEveryDomain(ctx context.Context, c backend) ([]reading, error) {
	domains, err := c.ConnectListAllDomains(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the domains: %w", err)
	}
	var out []reading
	for _, r := range readDomains(ctx, c, domains) {
		switch {
		case isLibvirtError(r.err, libvirt.ErrNoDomain):
		case r.err != nil:
			return nil, r.err
		default:
			out = append(out, r)
		}
	}
	return out, nil
}

// modified reads libvirt's text for a time: seconds, a dot, nanoseconds. It is zero for another one.
func modified(text string) time.Time {
	whole, fraction, _ := strings.Cut(text, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || seconds <= 0 {
		return time.Time{}
	}
	nanos, _ := strconv.ParseInt((fraction + "000000000")[:9], 10, 64) // without it, the second will do
	return time.Unix(seconds, nanos).UTC()
}
