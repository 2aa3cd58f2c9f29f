package kvm2

import (
	"context"

	"github.com/digitalocean/go-libvirt"
)

// allDomains asks for every domain there is: an undefined one that still runs is transient and would
// be missing from a list of persistent ones.
const allDomains = libvirt.ConnectListDomainsActive | libvirt.ConnectListDomainsInactive |
	libvirt.ConnectListDomainsPersistent | libvirt.ConnectListDomainsTransient

// withResults makes a list call return the list, and not only its length.
const withResults = 1

func (c *libvirtConn) ConnectGetLibVersion(ctx context.Context) (uint64, error) {
	return call(ctx, c, c.short("ConnectGetLibVersion"), c.rpc.ConnectGetLibVersion)
}

func (c *libvirtConn) ConnectGetHostname(ctx context.Context) (string, error) {
	return call(ctx, c, c.short("ConnectGetHostname"), c.rpc.ConnectGetHostname)
}

func (c *libvirtConn) ConnectGetCapabilities(ctx context.Context) (string, error) {
	return call(ctx, c, c.short("ConnectGetCapabilities"), c.rpc.ConnectGetCapabilities)
}

func (c *libvirtConn) ConnectListAllDomains(ctx context.Context) ([]domain, error) {
	return call(ctx, c, c.short("ConnectListAllDomains"), func() ([]domain, error) {
		found, _, err := c.rpc.ConnectListAllDomains(withResults, allDomains)
		return convert(found, toDomain), err
	})
}

func (c *libvirtConn) DomainLookupByName(ctx context.Context, name string) (domain, error) {
	return call(ctx, c, c.short("DomainLookupByName"), func() (domain, error) {
		d, err := c.rpc.DomainLookupByName(name)
		return toDomain(d), err
	})
}

func (c *libvirtConn) DomainDefineXML(ctx context.Context, xml string) (domain, error) {
	return call(ctx, c, c.short("DomainDefineXML"), func() (domain, error) {
		d, err := c.rpc.DomainDefineXML(xml)
		return toDomain(d), err
	})
}

func (c *libvirtConn) DomainCreate(ctx context.Context, d domain) error {
	_, err := call(ctx, c, rpcCall{name: "DomainCreate", limit: c.limits.domainCreate},
		noResult(func() error { return c.rpc.DomainCreate(fromDomain(d)) }))
	return err
}

func (c *libvirtConn) DomainDestroy(ctx context.Context, d domain) error {
	_, err := call(ctx, c, c.aboutDomain("DomainDestroy"),
		noResult(func() error { return c.rpc.DomainDestroy(fromDomain(d)) }))
	return err
}

func (c *libvirtConn) DomainUndefineFlags(ctx context.Context, d domain, flags uint32) error {
	_, err := call(ctx, c, c.aboutDomain("DomainUndefineFlags"), noResult(func() error {
		return c.rpc.DomainUndefineFlags(fromDomain(d), libvirt.DomainUndefineFlagsValues(flags)) //nolint:gosec // flag bits, the type's sign is the library's
	}))
	return err
}

func (c *libvirtConn) DomainSetAutostart(ctx context.Context, d domain, on bool) error {
	var value int32
	if on {
		value = 1
	}
	_, err := call(ctx, c, c.aboutDomain("DomainSetAutostart"),
		noResult(func() error { return c.rpc.DomainSetAutostart(fromDomain(d), value) }))
	return err
}

func (c *libvirtConn) DomainGetState(ctx context.Context, d domain) (state, reason int32, err error) {
	pair, err := call(ctx, c, c.aboutDomain("DomainGetState"), func() ([2]int32, error) {
		s, r, err := c.rpc.DomainGetState(fromDomain(d), 0)
		return [2]int32{s, r}, err
	})
	return pair[0], pair[1], err
}

func (c *libvirtConn) DomainGetXMLDesc(ctx context.Context, d domain) (string, error) {
	return call(ctx, c, c.aboutDomain("DomainGetXMLDesc"), func() (string, error) {
		return c.rpc.DomainGetXMLDesc(fromDomain(d), 0)
	})
}

func (c *libvirtConn) DomainInterfaceAddresses(ctx context.Context, d domain, source addressSource) ([]guestInterface, error) {
	spec := c.aboutDomain("DomainInterfaceAddresses")
	spec.agent = source == sourceAgent
	return call(ctx, c, spec, func() ([]guestInterface, error) {
		found, err := c.rpc.DomainInterfaceAddresses(fromDomain(d), uint32(source), 0)
		return convert(found, toGuestInterface), err
	})
}

func toDomain(d libvirt.Domain) domain { return domain{Name: d.Name, UUID: d.UUID, ID: d.ID} }

func fromDomain(d domain) libvirt.Domain {
	return libvirt.Domain{Name: d.Name, UUID: d.UUID, ID: d.ID}
}

func toGuestInterface(i libvirt.DomainInterface) guestInterface {
	out := guestInterface{Name: i.Name}
	if len(i.Hwaddr) > 0 {
		out.MAC = i.Hwaddr[0]
	}
	for _, a := range i.Addrs {
		out.Addrs = append(out.Addrs, a.Addr)
	}
	return out
}

func convert[From, To any](in []From, to func(From) To) []To {
	out := make([]To, 0, len(in))
	for _, v := range in {
		out = append(out, to(v))
	}
	return out
}
