// Package kvm2 is the provider for libvirt/KVM hosts that are reached over SSH. Its answers to the
// contract's questions are in docs/kvm2-provider-spec.md.
package kvm2

import (
	"context"
	"io"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// backend is the seam (contract 4.15): the libvirt calls that the provider makes, each with a ctx.
// Method names are libvirt's; types are this package's own. Errors are libvirt's own
// (libvirt.Error) or the transport's: classify turns them into the contract's classes.
type backend interface {
	ConnectGetLibVersion(ctx context.Context) (uint64, error)
	ConnectGetHostname(ctx context.Context) (string, error)
	ConnectGetCapabilities(ctx context.Context) (string, error)
	// ConnectGetDomainCapabilities describes what domains of a virtualization the host can run.
	ConnectGetDomainCapabilities(ctx context.Context, virt virtualization) (string, error)
	ConnectListAllDomains(ctx context.Context) ([]domain, error)
	ConnectListAllStoragePools(ctx context.Context) ([]pool, error)

	DomainLookupByName(ctx context.Context, name string) (domain, error)
	DomainDefineXML(ctx context.Context, xml string) (domain, error)
	DomainCreate(ctx context.Context, d domain) error
	DomainDestroy(ctx context.Context, d domain) error
	DomainUndefineFlags(ctx context.Context, d domain, flags uint32) error
	DomainSetAutostart(ctx context.Context, d domain, on bool) error
	DomainGetState(ctx context.Context, d domain) (state, reason int32, err error)
	DomainGetXMLDesc(ctx context.Context, d domain) (string, error)
	DomainInterfaceAddresses(ctx context.Context, d domain, source addressSource) ([]guestInterface, error)
	// QEMUDomainAgentCommand runs one command of the guest agent's protocol and gives its answer, JSON both.
	QEMUDomainAgentCommand(ctx context.Context, d domain, command string) (string, error)

	InterfaceLookupByName(ctx context.Context, name string) (hostInterface, error)
	InterfaceGetXMLDesc(ctx context.Context, i hostInterface) (string, error)

	StoragePoolLookupByName(ctx context.Context, name string) (pool, error)
	StoragePoolGetInfo(ctx context.Context, p pool) (poolInfo, error)
	StoragePoolGetXMLDesc(ctx context.Context, p pool) (string, error)
	StoragePoolRefresh(ctx context.Context, p pool) error
	StoragePoolListAllVolumes(ctx context.Context, p pool) ([]volume, error)

	StorageVolLookupByName(ctx context.Context, p pool, name string) (volume, error)
	StorageVolCreateXML(ctx context.Context, p pool, xml string) (volume, error)
	StorageVolGetPath(ctx context.Context, v volume) (string, error)
	StorageVolGetXMLDesc(ctx context.Context, v volume) (string, error)
	// StorageVolUpload sends exactly length bytes of r into the volume from its start. A reader that
	// ends early or late is an error, whatever libvirt says of it.
	StorageVolUpload(ctx context.Context, v volume, r io.Reader, length uint64) error
	// StorageVolDownload gives the bytes from offset on, length of them or as many as there are. The length
	// is what is kept in memory.
	StorageVolDownload(ctx context.Context, v volume, offset, length uint64) ([]byte, error)
	StorageVolDelete(ctx context.Context, v volume) error
}

// conn is one libvirt connection.
type conn interface {
	backend
	// HostTime asks the host's shell for the time, to the second. libvirt has no call for it. An account
	// that may run no command is errNoShell.
	HostTime(ctx context.Context) (time.Time, error)
	// Done is closed when the connection is dead: lost, or dropped after an abandoned call.
	Done() <-chan struct{}
	// Close ends it. It does not wait for calls in flight; they return an error.
	Close() error
}

// link is one SSH connection to a host.
type link interface {
	// Open makes a libvirt connection of its own through the link. Closing it leaves the link open.
	Open(ctx context.Context) (conn, error)
	// Done is closed when the link is dead.
	Done() <-chan struct{}
	// Close ends the link and every connection through it.
	Close() error
}

// dialer makes links. Credentials are read on every dial.
type dialer interface {
	Dial(ctx context.Context, host provider.KVMHost) (link, error)
}

// domain names a libvirt domain, as remote_nonnull_domain does.
type domain struct {
	Name string
	UUID [16]byte
	ID   int32 // -1 when it is not active
}

// pool names a storage pool.
type pool struct {
	Name string
	UUID [16]byte
}

// poolInfo is a pool's state (virStoragePoolState) and its sizes in bytes.
type poolInfo struct {
	State                           uint8
	Capacity, Allocation, Available uint64
}

// volume names a storage volume; Key is its path in a directory pool.
type volume struct {
	Pool, Name, Key string
}

// hostInterface names a network interface of the host.
type hostInterface struct {
	Name, MAC string
}

// addressSource is where libvirt looks for a guest's addresses (virDomainInterfaceAddressesSource).
type addressSource uint32

const (
	sourceAgent addressSource = 1
	sourceARP   addressSource = 2
)

// guestInterface is one interface of a guest with its addresses.
type guestInterface struct {
	Name  string
	MAC   string
	Addrs []string // IP addresses as text, no prefix length, both families
}
