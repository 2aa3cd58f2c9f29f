package kvm2

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/go-logr/logr"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/conformance"
)

// scripted is a dialer whose connections go through a script: below the decorator, above whatever answers.
type scripted struct {
	dialer
	script *conformance.Script
	log    logr.Logger

	mu    sync.Mutex
	links map[string][]link // that are open, by host
}

// newScripted gives a dialer through a script with every fault of a libvirt connection.
func newScripted(d dialer, log logr.Logger) *scripted {
	s := &scripted{dialer: d, log: log, links: map[string][]link{}}
	s.script = &conformance.Script{Drop: s.drop, Tell: tellOfLibvirt, Errors: map[conformance.FaultKind]error{
		conformance.Strange:     virErr(4711, "an error that nobody knows"),
		conformance.Denied:      virErr(libvirt.ErrAccessDenied, "access denied"),
		conformance.Busy:        virErr(libvirt.ErrResourceBusy, "resource busy"),
		conformance.Missing:     virErr(libvirt.ErrNoStorageVol, "Storage volume not found"),
		conformance.Garbled:     errors.New("xdr: the reply ends in the middle"),
		conformance.Dropped:     errFakeLost,
		conformance.Late:        provider.Errorf(provider.ErrTransient, provider.ReasonTimeout, "no answer within 30s"),
		conformance.Unreachable: errFakeLost,
	}}
	return s
}

// tellOfLibvirt says what is missing, and which host cannot be reached, as libvirt and the dialer do.
func tellOfLibvirt(c conformance.Call, kind conformance.FaultKind, err error) error {
	switch {
	case kind == conformance.Missing && strings.HasPrefix(c.Name, "Domain"):
		return virErr(libvirt.ErrNoDomain, "Domain not found")
	case kind == conformance.Unreachable && c.Name == "":
		return provider.Errorf(provider.ErrTransient, provider.ReasonUnreachable, "host %s cannot be reached: %w", c.Host, err)
	case kind == conformance.Late:
		return provider.Errorf(provider.ErrTransient, provider.ReasonTimeout, "%s: host %s did not answer within 30s", c.Name, c.Host)
	}
	return err
}

func (s *scripted) drop(host string) {
	s.mu.Lock()
	lost := s.links[host]
	delete(s.links, host)
	s.mu.Unlock()
	for _, l := range lost {
		_ = l.Close() // it is lost
	}
}

func (s *scripted) Dial(ctx context.Context, host provider.KVMHost) (link, error) {
	if err := s.script.Down(host.Name); err != nil {
		return nil, err
	}
	l, err := s.dialer.Dial(ctx, host)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links[host.Name] = append(s.links[host.Name], l)
	return scriptedLink{l, s, host.Name}, nil
}

type scriptedLink struct {
	link
	s    *scripted
	host string
}

// Open puts the script where production has nothing: between the decorator and the client.
func (l scriptedLink) Open(ctx context.Context) (conn, error) {
	c, err := l.link.Open(ctx)
	if err != nil {
		return nil, err
	}
	if bare, ok := c.(*observed); ok {
		c = bare.conn
	}
	return observe(&scriptedConn{c, l.s.script, l.host}, l.s.log, l.host), nil
}

// scriptedConn embeds nothing, so that a call which is added to the seam cannot go past the script.
type scriptedConn struct {
	conn   conn
	script *conformance.Script
	host   string
}

var _ conn = (*scriptedConn)(nil)

func (c *scriptedConn) Done() <-chan struct{} { return c.conn.Done() }

func (c *scriptedConn) Close() error { return c.conn.Close() }

func (c *scriptedConn) HostTime(ctx context.Context) (time.Time, error) { return c.conn.HostTime(ctx) }

// callKind says what a call of the seam is for.
func callKind(name string) conformance.CallKind {
	switch name {
	case "DomainInterfaceAddresses":
		return conformance.Address
	case "DomainDefineXML", "DomainCreate", "DomainDestroy", "DomainUndefineFlags", "DomainSetAutostart",
		"StorageVolCreateXML", "StorageVolUpload", "StorageVolDelete":
		return conformance.Change
	}
	return conformance.Read
}

func through[T any](ctx context.Context, c *scriptedConn, name string, call func() (T, error)) (value T, err error) {
	err = c.script.Through(ctx, conformance.Call{Host: c.host, Name: name, Kind: callKind(name)}, func() (err error) {
		value, err = call()
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return value, nil
}

func throughPlain(ctx context.Context, c *scriptedConn, name string, call func() error) error {
	_, err := through(ctx, c, name, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

func (c *scriptedConn) ConnectGetLibVersion(ctx context.Context) (uint64, error) {
	return through(ctx, c, "ConnectGetLibVersion", func() (uint64, error) { return c.conn.ConnectGetLibVersion(ctx) })
}

func (c *scriptedConn) ConnectGetHostname(ctx context.Context) (string, error) {
	return through(ctx, c, "ConnectGetHostname", func() (string, error) { return c.conn.ConnectGetHostname(ctx) })
}

func (c *scriptedConn) ConnectGetCapabilities(ctx context.Context) (string, error) {
	return through(ctx, c, "ConnectGetCapabilities", func() (string, error) { return c.conn.ConnectGetCapabilities(ctx) })
}

func (c *scriptedConn) ConnectGetDomainCapabilities(ctx context.Context, virt virtualization) (string, error) {
	return through(ctx, c, "ConnectGetDomainCapabilities", func() (string, error) { return c.conn.ConnectGetDomainCapabilities(ctx, virt) })
}

func (c *scriptedConn) ConnectListAllStoragePools(ctx context.Context) ([]pool, error) {
	return through(ctx, c, "ConnectListAllStoragePools", func() ([]pool, error) { return c.conn.ConnectListAllStoragePools(ctx) })
}

func (c *scriptedConn) QEMUDomainAgentCommand(ctx context.Context, d domain, command string) (string, error) {
	return through(ctx, c, "QEMUDomainAgentCommand", func() (string, error) { return c.conn.QEMUDomainAgentCommand(ctx, d, command) })
}

func (c *scriptedConn) InterfaceLookupByName(ctx context.Context, name string) (hostInterface, error) {
	return through(ctx, c, "InterfaceLookupByName", func() (hostInterface, error) { return c.conn.InterfaceLookupByName(ctx, name) })
}

func (c *scriptedConn) InterfaceGetXMLDesc(ctx context.Context, i hostInterface) (string, error) {
	return through(ctx, c, "InterfaceGetXMLDesc", func() (string, error) { return c.conn.InterfaceGetXMLDesc(ctx, i) })
}

func (c *scriptedConn) StorageVolDownload(ctx context.Context, v volume, offset, length uint64) ([]byte, error) {
	return through(ctx, c, "StorageVolDownload", func() ([]byte, error) { return c.conn.StorageVolDownload(ctx, v, offset, length) })
}

func (c *scriptedConn) ConnectListAllDomains(ctx context.Context) ([]domain, error) {
	return through(ctx, c, "ConnectListAllDomains", func() ([]domain, error) { return c.conn.ConnectListAllDomains(ctx) })
}

func (c *scriptedConn) DomainLookupByName(ctx context.Context, name string) (domain, error) {
	return through(ctx, c, "DomainLookupByName", func() (domain, error) { return c.conn.DomainLookupByName(ctx, name) })
}

func (c *scriptedConn) DomainDefineXML(ctx context.Context, xml string) (domain, error) {
	return through(ctx, c, "DomainDefineXML", func() (domain, error) { return c.conn.DomainDefineXML(ctx, xml) })
}

func (c *scriptedConn) DomainCreate(ctx context.Context, d domain) error {
	return throughPlain(ctx, c, "DomainCreate", func() error { return c.conn.DomainCreate(ctx, d) })
}

func (c *scriptedConn) DomainDestroy(ctx context.Context, d domain) error {
	return throughPlain(ctx, c, "DomainDestroy", func() error { return c.conn.DomainDestroy(ctx, d) })
}

func (c *scriptedConn) DomainUndefineFlags(ctx context.Context, d domain, flags uint32) error {
	return throughPlain(ctx, c, "DomainUndefineFlags", func() error { return c.conn.DomainUndefineFlags(ctx, d, flags) })
}

func (c *scriptedConn) DomainSetAutostart(ctx context.Context, d domain, on bool) error {
	return throughPlain(ctx, c, "DomainSetAutostart", func() error { return c.conn.DomainSetAutostart(ctx, d, on) })
}

func (c *scriptedConn) DomainGetState(ctx context.Context, d domain) (state, reason int32, err error) {
	pair, err := through(ctx, c, "DomainGetState", func() ([2]int32, error) {
		state, reason, err := c.conn.DomainGetState(ctx, d)
		return [2]int32{state, reason}, err
	})
	return pair[0], pair[1], err
}

func (c *scriptedConn) DomainGetXMLDesc(ctx context.Context, d domain) (string, error) {
	return through(ctx, c, "DomainGetXMLDesc", func() (string, error) { return c.conn.DomainGetXMLDesc(ctx, d) })
}

func (c *scriptedConn) DomainInterfaceAddresses(ctx context.Context, d domain, source addressSource) ([]guestInterface, error) {
	return through(ctx, c, "DomainInterfaceAddresses", func() ([]guestInterface, error) {
		return c.conn.DomainInterfaceAddresses(ctx, d, source)
	})
}

func (c *scriptedConn) StoragePoolLookupByName(ctx context.Context, name string) (pool, error) {
	return through(ctx, c, "StoragePoolLookupByName", func() (pool, error) { return c.conn.StoragePoolLookupByName(ctx, name) })
}

func (c *scriptedConn) StoragePoolGetInfo(ctx context.Context, p pool) (poolInfo, error) {
	return through(ctx, c, "StoragePoolGetInfo", func() (poolInfo, error) { return c.conn.StoragePoolGetInfo(ctx, p) })
}

func (c *scriptedConn) StoragePoolGetXMLDesc(ctx context.Context, p pool) (string, error) {
	return through(ctx, c, "StoragePoolGetXMLDesc", func() (string, error) { return c.conn.StoragePoolGetXMLDesc(ctx, p) })
}

func (c *scriptedConn) StoragePoolRefresh(ctx context.Context, p pool) error {
	return throughPlain(ctx, c, "StoragePoolRefresh", func() error { return c.conn.StoragePoolRefresh(ctx, p) })
}

func (c *scriptedConn) StoragePoolListAllVolumes(ctx context.Context, p pool) ([]volume, error) {
	return through(ctx, c, "StoragePoolListAllVolumes", func() ([]volume, error) { return c.conn.StoragePoolListAllVolumes(ctx, p) })
}

func (c *scriptedConn) StorageVolLookupByName(ctx context.Context, p pool, name string) (volume, error) {
	return through(ctx, c, "StorageVolLookupByName", func() (volume, error) { return c.conn.StorageVolLookupByName(ctx, p, name) })
}

func (c *scriptedConn) StorageVolCreateXML(ctx context.Context, p pool, xml string) (volume, error) {
	return through(ctx, c, "StorageVolCreateXML", func() (volume, error) { return c.conn.StorageVolCreateXML(ctx, p, xml) })
}

func (c *scriptedConn) StorageVolGetPath(ctx context.Context, v volume) (string, error) {
	return through(ctx, c, "StorageVolGetPath", func() (string, error) { return c.conn.StorageVolGetPath(ctx, v) })
}

func (c *scriptedConn) StorageVolGetXMLDesc(ctx context.Context, v volume) (string, error) {
	return through(ctx, c, "StorageVolGetXMLDesc", func() (string, error) { return c.conn.StorageVolGetXMLDesc(ctx, v) })
}

func (c *scriptedConn) StorageVolUpload(ctx context.Context, v volume, r io.Reader, length uint64) error {
	return throughPlain(ctx, c, "StorageVolUpload", func() error { return c.conn.StorageVolUpload(ctx, v, r, length) })
}

func (c *scriptedConn) StorageVolDelete(ctx context.Context, v volume) error {
	return throughPlain(ctx, c, "StorageVolDelete", func() error { return c.conn.StorageVolDelete(ctx, v) })
}
