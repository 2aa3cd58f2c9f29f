package kvm2

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/digitalocean/go-libvirt"
)

func (c *libvirtConn) StoragePoolLookupByName(ctx context.Context, name string) (pool, error) {
	return call(ctx, c, c.short("StoragePoolLookupByName"), func() (pool, error) {
		p, err := c.rpc.StoragePoolLookupByName(name)
		return pool{Name: p.Name, UUID: p.UUID}, err
	})
}

func (c *libvirtConn) StoragePoolGetInfo(ctx context.Context, p pool) (poolInfo, error) {
	return call(ctx, c, c.short("StoragePoolGetInfo"), func() (poolInfo, error) {
		state, capacity, allocation, available, err := c.rpc.StoragePoolGetInfo(fromPool(p))
		return poolInfo{State: state, Capacity: capacity, Allocation: allocation, Available: available}, err
	})
}

func (c *libvirtConn) StoragePoolGetXMLDesc(ctx context.Context, p pool) (string, error) {
	return call(ctx, c, c.short("StoragePoolGetXMLDesc"), func() (string, error) {
		return c.rpc.StoragePoolGetXMLDesc(fromPool(p), 0)
	})
}

func (c *libvirtConn) StoragePoolRefresh(ctx context.Context, p pool) error {
	_, err := call(ctx, c, c.short("StoragePoolRefresh"),
		noResult(func() error { return c.rpc.StoragePoolRefresh(fromPool(p), 0) }))
	return err
}

func (c *libvirtConn) StoragePoolListAllVolumes(ctx context.Context, p pool) ([]volume, error) {
	return call(ctx, c, c.short("StoragePoolListAllVolumes"), func() ([]volume, error) {
		found, _, err := c.rpc.StoragePoolListAllVolumes(fromPool(p), withResults, 0)
		return convert(found, toVolume), err
	})
}

func (c *libvirtConn) StorageVolLookupByName(ctx context.Context, p pool, name string) (volume, error) {
	return call(ctx, c, c.short("StorageVolLookupByName"), func() (volume, error) {
		v, err := c.rpc.StorageVolLookupByName(fromPool(p), name)
		return toVolume(v), err
	})
}

func (c *libvirtConn) StorageVolCreateXML(ctx context.Context, p pool, xml string) (volume, error) {
	return call(ctx, c, c.short("StorageVolCreateXML"), func() (volume, error) {
		v, err := c.rpc.StorageVolCreateXML(fromPool(p), xml, 0)
		return toVolume(v), err
	})
}

func (c *libvirtConn) StorageVolGetPath(ctx context.Context, v volume) (string, error) {
	return call(ctx, c, c.short("StorageVolGetPath"), func() (string, error) {
		return c.rpc.StorageVolGetPath(fromVolume(v))
	})
}

func (c *libvirtConn) StorageVolGetXMLDesc(ctx context.Context, v volume) (string, error) {
	return call(ctx, c, c.short("StorageVolGetXMLDesc"), func() (string, error) {
		return c.rpc.StorageVolGetXMLDesc(fromVolume(v), 0)
	})
}

func (c *libvirtConn) StorageVolDelete(ctx context.Context, v volume) error {
	_, err := call(ctx, c, c.short("StorageVolDelete"),
		noResult(func() error { return c.rpc.StorageVolDelete(fromVolume(v), 0) }))
	return err
}

// StorageVolUpload sends exactly length bytes. When it returns before r has ended, on ctx's end or an
// error, a Read of r may still be under way, and is the last: r must be one that ctx's end unblocks,
// and may not be read again.
func (c *libvirtConn) StorageVolUpload(ctx context.Context, v volume, r io.Reader, length uint64) error {
	spec := rpcCall{name: "StorageVolUpload", limit: c.limits.upload}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A body that fails is told to libvirt as an aborted stream. Not every version answers that, and
	// the library waits for an answer: the call is given up when none comes.
	body := newExactReader(r, length, func() { time.AfterFunc(c.limits.closing, cancel) })
	defer body.stop()
	var err error
	if length > 0 { // to libvirt a length of 0 means no limit, and there is nothing to send
		_, err = call(ctx, c, spec, noResult(func() error {
			return c.rpc.StorageVolUpload(fromVolume(v), body, 0, length, 0)
		}))
	}
	if failed := body.failure(); failed != nil {
		return fmt.Errorf("%s on host %s: %w", spec.name, c.host, failed)
	}
	if err != nil {
		return err
	}
	return body.finish()
}

func fromPool(p pool) libvirt.StoragePool {
	return libvirt.StoragePool{Name: p.Name, UUID: p.UUID}
}

func toVolume(v libvirt.StorageVol) volume { return volume{Pool: v.Pool, Name: v.Name, Key: v.Key} }

func fromVolume(v volume) libvirt.StorageVol {
	return libvirt.StorageVol{Pool: v.Pool, Name: v.Name, Key: v.Key}
}
