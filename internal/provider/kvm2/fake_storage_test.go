package kvm2

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"
)

const (
	fakePoolInactive = uint8(libvirt.StoragePoolInactive)
	fakePoolRunning  = uint8(libvirt.StoragePoolRunning)
	// fakeOverlayBytes is what a new qcow2 overlay takes on disk.
	fakeOverlayBytes = 196 << 10
	// fakeKeep is how much of an upload's content is kept; length and hash are of everything.
	fakeKeep = 8 << 20
)

// fakePool is one storage pool.
type fakePool struct {
	name, kind, path string
	state            uint8
	capacity         uint64
	// used is what lies in the pool beside its volumes.
	used    uint64
	volumes []*fakeVolume
}

// fakeVolume is one volume, or a file that libvirt has not seen yet.
type fakeVolume struct {
	name, format         string
	capacity, allocation uint64
	mode                 string
	backing              *libvirtxml.StorageVolumeBackingStore
	mtime                time.Time
	uploads              int
	content              []byte // the first fakeKeep bytes
	sha256               string // of everything that was uploaded, hex
	length               uint64
	// unlisted: the file exists, the pool's listing does not have it. gone: the other way round.
	unlisted, gone bool
}

// addPool adds an active directory pool.
func (h *fakeHost) addPool(name, path string, capacity uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pools[name] = &fakePool{name: name, kind: "dir", path: path, state: fakePoolRunning, capacity: capacity}
}

// withPool lets a test look at or change a pool. It panics when there is none: a broken test.
func (h *fakeHost) withPool(name string, use func(p *fakePool)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.pools[name]
	if p == nil {
		panic("fake: no pool " + name)
	}
	use(p)
}

// removePool undefines a pool; its files are out of libvirt's sight with it.
func (h *fakeHost) removePool(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.pools, name)
}

// addVolume puts a raw volume into a pool.
func (h *fakeHost) addVolume(poolName, name string, content []byte) {
	h.withPool(poolName, func(p *fakePool) {
		sum := sha256.Sum256(content)
		p.volumes = append(p.volumes, &fakeVolume{
			name: name, format: "raw", capacity: uint64(len(content)), allocation: uint64(len(content)),
			mtime: fakeNow(), content: content, length: uint64(len(content)), sha256: hex.EncodeToString(sum[:]),
		})
	})
}

// withVolume lets a test look at or change a volume. It panics when there is none: a broken test.
func (h *fakeHost) withVolume(poolName, name string, use func(v *fakeVolume)) {
	h.withPool(poolName, func(p *fakePool) {
		v := p.file(name)
		if v == nil {
			panic("fake: no volume " + name)
		}
		use(v)
	})
}

// volumeNames gives the names of a pool's files, listed or not, sorted.
func (h *fakeHost) volumeNames(poolName string) []string {
	var names []string
	h.withPool(poolName, func(p *fakePool) {
		for _, v := range p.volumes {
			names = append(names, v.name)
		}
	})
	slices.Sort(names)
	return names
}

// file finds a file, listed or not.
func (p *fakePool) file(name string) *fakeVolume {
	for _, v := range p.volumes {
		if v.name == name {
			return v
		}
	}
	return nil
}

func (p *fakePool) allocated() uint64 {
	sum := p.used
	for _, v := range p.volumes {
		sum += v.allocation
	}
	return sum
}

func (p *fakePool) available() uint64 {
	if used := p.allocated(); used < p.capacity {
		return p.capacity - used
	}
	return 0
}

func (p *fakePool) pathOf(name string) string { return p.path + "/" + name }

// fileExists looks for a path in all pools, active or not: QEMU does not ask libvirt's pools.
func (h *fakeHost) fileExists(path string) bool {
	for _, p := range h.pools {
		for _, v := range p.volumes {
			if p.pathOf(v.name) == path && !v.gone {
				return true
			}
		}
	}
	return false
}

func (h *fakeHost) pool(name string) (*fakePool, error) {
	if p := h.pools[name]; p != nil {
		return p, nil
	}
	return nil, virErr(libvirt.ErrNoStoragePool, "Storage pool not found: no storage pool with matching name '"+name+"'")
}

func (h *fakeHost) activePool(name string) (*fakePool, error) {
	p, err := h.pool(name)
	if err == nil && p.state != fakePoolRunning {
		err = virErr(libvirt.ErrOperationInvalid, "Requested operation is not valid: storage pool '"+name+"' is not active")
	}
	return p, err
}

func (h *fakeHost) volume(ref volume) (*fakePool, *fakeVolume, error) {
	p, err := h.activePool(ref.Pool)
	if err != nil {
		return nil, nil, err
	}
	v := p.file(ref.Name)
	if v == nil || v.unlisted {
		return nil, nil, virErr(libvirt.ErrNoStorageVol, "Storage volume not found: no storage vol with matching name '"+ref.Name+"'")
	}
	return p, v, nil
}

// onPool is a call about one pool.
func onPool[T any](ctx context.Context, c *fakeConn, method, name string, effect func(p *fakePool) (T, error)) (T, error) {
	return fakeRPC(ctx, c, method, name, func(h *fakeHost) (T, error) {
		p, err := h.pool(name)
		if err != nil {
			var zero T
			return zero, err
		}
		return effect(p)
	})
}

// onVolume is a call about one volume of an active pool.
func onVolume[T any](ctx context.Context, c *fakeConn, method string, ref volume, effect func(p *fakePool, v *fakeVolume) (T, error)) (T, error) {
	return fakeRPC(ctx, c, method, ref.Name, func(h *fakeHost) (T, error) {
		p, v, err := h.volume(ref)
		if err != nil {
			var zero T
			return zero, err
		}
		return effect(p, v)
	})
}

func (c *fakeConn) StoragePoolLookupByName(ctx context.Context, name string) (pool, error) {
	return onPool(ctx, c, "StoragePoolLookupByName", name, func(p *fakePool) (pool, error) { return pool{Name: p.name}, nil })
}

func (c *fakeConn) StoragePoolGetInfo(ctx context.Context, ref pool) (poolInfo, error) {
	return onPool(ctx, c, "StoragePoolGetInfo", ref.Name, func(p *fakePool) (poolInfo, error) {
		if p.state != fakePoolRunning {
			return poolInfo{State: p.state}, nil
		}
		return poolInfo{State: p.state, Capacity: p.capacity, Allocation: p.allocated(), Available: p.available()}, nil
	})
}

func (c *fakeConn) StoragePoolGetXMLDesc(ctx context.Context, ref pool) (string, error) {
	return onPool(ctx, c, "StoragePoolGetXMLDesc", ref.Name, func(p *fakePool) (string, error) {
		doc := libvirtxml.StoragePool{Type: p.kind, Name: p.name, Target: &libvirtxml.StoragePoolTarget{Path: p.path}}
		return doc.Marshal()
	})
}

func (c *fakeConn) StoragePoolRefresh(ctx context.Context, ref pool) error {
	_, err := fakeRPC(ctx, c, "StoragePoolRefresh", ref.Name, func(h *fakeHost) (done0, error) {
		p, err := h.activePool(ref.Name)
		if err != nil {
			return done0{}, err
		}
		p.volumes = slices.DeleteFunc(p.volumes, func(v *fakeVolume) bool { return v.gone })
		for _, v := range p.volumes {
			v.unlisted = false
			v.probe()
		}
		return done0{}, nil
	})
	return err
}

func (c *fakeConn) StoragePoolListAllVolumes(ctx context.Context, ref pool) ([]volume, error) {
	return fakeRPC(ctx, c, "StoragePoolListAllVolumes", ref.Name, func(h *fakeHost) ([]volume, error) {
		p, err := h.activePool(ref.Name)
		if err != nil {
			return nil, err
		}
		var out []volume
		for _, v := range p.volumes {
			if !v.unlisted {
				out = append(out, volume{Pool: p.name, Name: v.name, Key: p.pathOf(v.name)})
			}
		}
		return out, nil
	})
}

func (c *fakeConn) StorageVolLookupByName(ctx context.Context, ref pool, name string) (volume, error) {
	return onVolume(ctx, c, "StorageVolLookupByName", volume{Pool: ref.Name, Name: name}, func(p *fakePool, v *fakeVolume) (volume, error) {
		return volume{Pool: p.name, Name: v.name, Key: p.pathOf(v.name)}, nil
	})
}

func (c *fakeConn) StorageVolCreateXML(ctx context.Context, ref pool, doc string) (volume, error) {
	return fakeRPC(ctx, c, "StorageVolCreateXML", xmlName(doc), func(h *fakeHost) (volume, error) {
		p, err := h.activePool(ref.Name)
		if err != nil {
			return volume{}, err
		}
		return h.createVolume(p, doc)
	})
}

func (h *fakeHost) createVolume(p *fakePool, doc string) (volume, error) {
	var want libvirtxml.StorageVolume
	if err := want.Unmarshal(doc); err != nil {
		return volume{}, virErr(libvirt.ErrXMLDetail, "(storage_volume_definition): "+err.Error())
	}
	v := &fakeVolume{name: want.Name, format: "raw", backing: want.BackingStore, mtime: fakeNow()}
	if want.Capacity == nil && want.BackingStore == nil {
		return volume{}, virErr(libvirt.ErrXMLError, "XML error: missing capacity element")
	}
	if want.Capacity != nil {
		v.capacity = bytesOf(want.Capacity)
		v.allocation = v.capacity
	}
	if want.Allocation != nil {
		v.allocation = bytesOf(want.Allocation)
	}
	if want.Target != nil && want.Target.Format != nil {
		v.format = want.Target.Format.Type
	}
	if want.Target != nil && want.Target.Permissions != nil {
		v.mode = want.Target.Permissions.Mode
	}
	if v.format == "qcow2" {
		v.allocation = fakeOverlayBytes
	}
	switch old := p.file(v.name); {
	case old != nil && !old.unlisted:
		return volume{}, virErr(libvirt.ErrStorageVolExist, "storage volume name '"+v.name+"' already in use.")
	case old != nil:
		return volume{}, virErr(libvirt.ErrOperationInvalid, "Requested operation is not valid: volume target path '"+p.pathOf(v.name)+"' already exists")
	case strings.Contains(v.name, "/") || v.name == "":
		return volume{}, virErr(libvirt.ErrOperationInvalid, "volume name '"+v.name+"' cannot contain '/'")
	case v.backing != nil && !h.fileExists(v.backing.Path):
		return volume{}, virErr(libvirt.ErrInternalError, "internal error: Child process (qemu-img create) unexpected exit status 1: Could not open '"+v.backing.Path+"'")
	case v.allocation > p.available():
		return volume{}, virErr(libvirt.ErrSystemError, "cannot allocate "+strconv.FormatUint(v.allocation, 10)+" bytes in file '"+p.pathOf(v.name)+"': No space left on device")
	}
	p.volumes = append(p.volumes, v)
	return volume{Pool: p.name, Name: v.name, Key: p.pathOf(v.name)}, nil
}

func bytesOf(size *libvirtxml.StorageVolumeSize) uint64 {
	unit := map[string]uint64{
		"": 1, "b": 1, "bytes": 1, "K": 1 << 10, "KiB": 1 << 10, "M": 1 << 20, "MiB": 1 << 20, "G": 1 << 30, "GiB": 1 << 30,
	}[size.Unit]
	if unit == 0 {
		panic("fake: unit " + size.Unit)
	}
	return size.Value * unit
}

func (c *fakeConn) StorageVolGetPath(ctx context.Context, ref volume) (string, error) {
	return onVolume(ctx, c, "StorageVolGetPath", ref, func(p *fakePool, v *fakeVolume) (string, error) { return p.pathOf(v.name), nil })
}

func (c *fakeConn) StorageVolGetXMLDesc(ctx context.Context, ref volume) (string, error) {
	return onVolume(ctx, c, "StorageVolGetXMLDesc", ref, func(p *fakePool, v *fakeVolume) (string, error) {
		if v.gone {
			return "", virErr(libvirt.ErrNoStorageVol, "Storage volume not found: no storage vol with matching path '"+p.pathOf(v.name)+"'")
		}
		stamp := fmt.Sprintf("%d.%09d", v.mtime.Unix(), v.mtime.Nanosecond())
		doc := libvirtxml.StorageVolume{
			Type: "file", Name: v.name, Key: p.pathOf(v.name),
			Capacity:   &libvirtxml.StorageVolumeSize{Unit: "bytes", Value: v.capacity},
			Allocation: &libvirtxml.StorageVolumeSize{Unit: "bytes", Value: v.allocation},
			Physical:   &libvirtxml.StorageVolumeSize{Unit: "bytes", Value: v.allocation},
			Target: &libvirtxml.StorageVolumeTarget{
				Path:       p.pathOf(v.name),
				Format:     &libvirtxml.StorageVolumeTargetFormat{Type: v.format},
				Timestamps: &libvirtxml.StorageVolumeTargetTimestamps{Atime: stamp, Mtime: stamp, Ctime: stamp},
			},
			BackingStore: v.backing,
		}
		if v.mode != "" {
			doc.Target.Permissions = &libvirtxml.StorageVolumeTargetPermissions{Mode: v.mode}
		}
		return doc.Marshal()
	})
}

// StorageVolDelete succeeds for the volume of a running domain too, as a directory pool's does.
func (c *fakeConn) StorageVolDelete(ctx context.Context, ref volume) error {
	_, err := onVolume(ctx, c, "StorageVolDelete", ref, func(p *fakePool, v *fakeVolume) (done0, error) {
		p.volumes = slices.DeleteFunc(p.volumes, func(other *fakeVolume) bool { return other == v })
		return done0{}, nil
	})
	return err
}

// StorageVolUpload writes as it reads, so that an upload which ends early leaves a partial volume.
func (c *fakeConn) StorageVolUpload(ctx context.Context, ref volume, r io.Reader, length uint64) error {
	var sink *fakeUpload
	f := c.host.enter("StorageVolUpload", ref.Name)
	defer c.host.leave()
	if err := ctx.Err(); err != nil {
		return err
	}
	if f != nil {
		if err := c.meet(ctx, f); err != nil {
			return err
		}
	}
	c.host.mu.Lock()
	p, v, err := c.host.volume(ref)
	if err == nil {
		v.uploads++
		v.content, v.length = nil, 0
		sink = &fakeUpload{host: c.host, pool: p, volume: v, sum: sha256.New()}
	}
	c.host.mu.Unlock()
	if err != nil {
		return err
	}
	if err := c.copyUpload(ctx, sink, r, length); err != nil {
		return err
	}
	c.host.mu.Lock()
	v.probe() // libvirt refreshes the pool after an upload
	c.host.mu.Unlock()
	if f != nil && f.after {
		return c.fail(f)
	}
	return nil
}

// copyUpload reads in a goroutine of its own, so that a reader which hangs does not hold up a cancel.
func (c *fakeConn) copyUpload(ctx context.Context, sink *fakeUpload, r io.Reader, length uint64) error {
	result := make(chan error, 1)
	go func() {
		limit := int64(length)
		n, err := io.CopyBuffer(sink, io.LimitReader(r, limit), make([]byte, 256<<10))
		switch {
		case err != nil:
		case n < limit:
			err = io.ErrUnexpectedEOF
		default:
			if extra, readErr := r.Read(make([]byte, 1)); extra > 0 {
				err = errors.New("reader is longer than declared")
			} else if readErr != nil && !errors.Is(readErr, io.EOF) {
				err = readErr
			}
		}
		result <- err
	}()
	select {
	case err := <-result:
		return err
	case <-c.done:
		return errFakeLost
	case <-ctx.Done():
		c.kill()
		return ctx.Err()
	}
}

// probe reads the head of the content, as a refresh of the pool does, and it is what is in a volume that
// counts from then on, not what it was made as.
func (v *fakeVolume) probe() {
	const isoMagic = 32769
	switch {
	case bytes.HasPrefix(v.content, []byte("QFI\xfb")) && len(v.content) > 32:
		v.format, v.capacity = "qcow2", binary.BigEndian.Uint64(v.content[24:])
	case len(v.content) > isoMagic && bytes.HasPrefix(v.content[isoMagic:], []byte("CD001")):
		v.format = "iso"
	}
}

// fakeUpload writes into a volume.
type fakeUpload struct {
	host   *fakeHost
	pool   *fakePool
	volume *fakeVolume
	sum    hash.Hash
}

func (u *fakeUpload) Write(b []byte) (int, error) {
	u.host.mu.Lock()
	defer u.host.mu.Unlock()
	v := u.volume
	end := v.length + uint64(len(b))
	if end > v.allocation {
		if grow := end - v.allocation; grow > u.pool.available() {
			return 0, virErr(libvirt.ErrSystemError, "cannot write to stream: No space left on device")
		}
		v.allocation = end
	}
	if room := fakeKeep - len(v.content); room > 0 {
		v.content = append(v.content, b[:min(room, len(b))]...)
	}
	_, _ = u.sum.Write(b) // a hash never fails
	v.length, v.capacity, v.mtime = end, max(v.capacity, end), fakeNow()
	v.sha256 = hex.EncodeToString(u.sum.Sum(nil))
	return len(b), nil
}
