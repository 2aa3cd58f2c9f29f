package kvm2

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/digitalocean/go-libvirt"
)

// The calls of a first look at a host, an image store or a guest.

func (c *libvirtConn) ConnectGetDomainCapabilities(ctx context.Context, virt virtualization) (string, error) {
	return call(ctx, c, c.short("ConnectGetDomainCapabilities"), func() (string, error) {
		return c.rpc.ConnectGetDomainCapabilities(nil, optional(virt.Arch), optional(virt.Machine), optional(virt.Type), 0)
	})
}

func (c *libvirtConn) ConnectListAllStoragePools(ctx context.Context) ([]pool, error) {
	return call(ctx, c, c.short("ConnectListAllStoragePools"), func() ([]pool, error) {
		found, _, err := c.rpc.ConnectListAllStoragePools(withResults, libvirt.ConnectListStoragePoolsActive)
		return convert(found, func(p libvirt.StoragePool) pool { return pool{Name: p.Name, UUID: p.UUID} }), err
	})
}

func (c *libvirtConn) InterfaceLookupByName(ctx context.Context, name string) (hostInterface, error) {
	return call(ctx, c, c.short("InterfaceLookupByName"), func() (hostInterface, error) {
		i, err := c.rpc.InterfaceLookupByName(name)
		return hostInterface{Name: i.Name, MAC: i.Mac}, err
	})
}

func (c *libvirtConn) InterfaceGetXMLDesc(ctx context.Context, i hostInterface) (string, error) {
	return call(ctx, c, c.short("InterfaceGetXMLDesc"), func() (string, error) {
		return c.rpc.InterfaceGetXMLDesc(libvirt.Interface{Name: i.Name, Mac: i.MAC}, 0)
	})
}

// agentSeconds is how long libvirt waits for the agent's answer to one command, less than the limit of
// the call, so that a silent agent costs no connection.
const agentSeconds = 5

func (c *libvirtConn) QEMUDomainAgentCommand(ctx context.Context, d domain, command string) (string, error) {
	spec := c.short("QEMUDomainAgentCommand")
	spec.agent = true
	return call(ctx, c, spec, func() (string, error) {
		answer, err := c.rpc.QEMUDomainAgentCommand(fromDomain(d), command, agentSeconds, 0)
		if err != nil || len(answer) == 0 {
			return "", err
		}
		return answer[0], nil
	})
}

// StorageVolDownload keeps what comes in memory, so that nobody writes to a caller's buffer after the
// call was given up. A host that sends more than it was asked for loses the connection: the library
// blocks for ever when a stream is left before its end.
func (c *libvirtConn) StorageVolDownload(ctx context.Context, v volume, offset, length uint64) ([]byte, error) {
	const name = "StorageVolDownload"
	kept := &limitedBuffer{limit: length, overflow: func() { _ = c.Close() }} // never fails
	data, err := call(ctx, c, c.short(name), func() ([]byte, error) {
		err := c.rpc.StorageVolDownload(fromVolume(v), kept, offset, length, 0)
		return kept.data, err
	})
	if kept.overflowed.Load() {
		return nil, fmt.Errorf("%s: host %s sends more than the %d bytes that it was asked for", name, c.host, length)
	}
	return data, err
}

// limitedBuffer takes all bytes and keeps so many.
type limitedBuffer struct {
	limit      uint64
	data       []byte
	overflow   func()
	overflowed atomic.Bool
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if uint64(len(b.data)+len(p)) > b.limit {
		b.overflowed.Store(true)
		b.overflow()
		return len(p), nil
	}
	b.data = append(b.data, p...)
	return len(p), nil
}

// optional is a text that may be left out, as libvirt has it on the wire.
func optional(text string) libvirt.OptString {
	if text == "" {
		return nil
	}
	return libvirt.OptString{text}
}
