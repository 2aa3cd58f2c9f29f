package kvm2

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// The fake is a stateful libvirt behind the seam: hosts with domains, pools and volumes that behave
// as libvirtd 9 was seen to behave, and faults that a test arms. It is below the code under test, so
// tests say what stands on the host in the end, not which calls were expected.

var (
	_ conn   = (*fakeConn)(nil)
	_ link   = (*fakeLink)(nil)
	_ dialer = (*fakeDialer)(nil)
)

// errFakeLost is what a call gets whose connection dies under it.
var errFakeLost = &net.OpError{Op: "read", Net: "unix", Err: io.ErrUnexpectedEOF}

// virErr is an answer of libvirt's own.
func virErr(code libvirt.ErrorNumber, message string) error {
	return libvirt.Error{Code: uint32(code), Message: message}
}

// fakeHost is one libvirt host. Its fields may be set before use; afterwards use its methods.
type fakeHost struct {
	name         string
	hostname     string
	libVersion   uint64
	capabilities string
	// domainCapabilities and interfaces are answers: documents, the latter by the interface's name.
	domainCapabilities string
	interfaces         map[string]string
	clockOff           time.Duration
	noShell            bool // the SSH user may run no command
	// rejectFlags are undefine flags that this libvirt does not know (answered with code 8).
	rejectFlags uint32

	mu          sync.Mutex
	domains     []*fakeDomain
	pools       map[string]*fakePool
	nextID      int32
	faults      []*fault
	calls       []fakeCall
	inFlight    int
	maxInFlight int
	conns       map[*fakeConn]struct{}
}

// fakeCall is one recorded call: the seam's method and the domain, pool or volume that it was about.
type fakeCall struct {
	Method, Arg string
}

// fault is one scripted misbehaviour.
type fault struct {
	// method that it applies to; "" is any.
	method string
	// arg that it applies to; "" is any.
	arg string
	// nth matching call from the moment it is armed, from 1; 0 is every one.
	nth int
	// err is what the caller gets. With nil and no drop the call goes on as usual.
	err error
	// after lets the call take effect first: the response is what is lost.
	after bool
	// drop kills the connection; err is then errFakeLost unless set.
	drop bool
	// block holds the call until it is closed or the call's ctx ends.
	block <-chan struct{}
	// entered, if not nil, is closed when the first matching call arrives.
	entered chan struct{}
	// hook runs before the effect, outside the host's lock: somebody else does something meanwhile.
	hook func()

	seen int
}

const fakeGiB = 1 << 30

// newFakeHost gives a host with KVM and an active directory pool "default" of 100 GiB.
func newFakeHost(name string) *fakeHost {
	h := &fakeHost{
		name:         name,
		hostname:     name + ".example.net",
		libVersion:   11_006_000,
		capabilities: fakeCapabilities("x86_64", "qemu", "kvm"),
		pools:        map[string]*fakePool{},
		nextID:       1,

		domainCapabilities: fakeDomainCapabilities("bios", "efi"),
		interfaces:         map[string]string{provider.DefaultBridge: "<interface type='bridge' name='br0'><bridge/></interface>"},

		conns: map[*fakeConn]struct{}{},
	}
	h.addPool(provider.DefaultPool, "/srv/vms/images", 100*fakeGiB)
	return h
}

// fakeCapabilities is a host's capabilities document for one architecture and its domain types.
func fakeCapabilities(arch string, types ...string) string {
	return "<capabilities><host><cpu><arch>" + arch + "</arch></cpu></host><guest><os_type>hvm</os_type><arch name='" + arch + "'>" +
		"<wordsize>64</wordsize><emulator>/usr/bin/qemu-system-" + arch + "</emulator>" +
		"<domain type='" + strings.Join(types, "'/><domain type='") + "'/></arch></guest></capabilities>"
}

// arm adds faults; each stays until the test ends or disarm.
func (h *fakeHost) arm(faults ...fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range faults {
		h.faults = append(h.faults, &faults[i])
	}
}

// disarm removes all faults.
func (h *fakeHost) disarm() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = nil
}

// recorded gives the calls so far, in order of arrival.
func (h *fakeHost) recorded() []fakeCall {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls)
}

// forget empties the record of calls.
func (h *fakeHost) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls, h.maxInFlight = nil, 0
}

// count says how many calls of a method there were.
func (h *fakeHost) count(method string) int {
	n := 0
	for _, c := range h.recorded() {
		if c.Method == method {
			n++
		}
	}
	return n
}

// busiest says how many calls were in flight at once, at most.
func (h *fakeHost) busiest() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.maxInFlight
}

// open says how many connections are open.
func (h *fakeHost) open() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.conns)
}

// enter records a call and gives the fault that applies to it, if any.
func (h *fakeHost) enter(method, arg string) *fault {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, fakeCall{method, arg})
	h.inFlight++
	h.maxInFlight = max(h.maxInFlight, h.inFlight)
	var hit *fault
	for _, f := range h.faults {
		if (f.method != "" && f.method != method) || (f.arg != "" && f.arg != arg) {
			continue
		}
		f.seen++
		if f.seen == 1 && f.entered != nil {
			close(f.entered)
		}
		if hit == nil && (f.nth == 0 || f.nth == f.seen) {
			hit = f
		}
	}
	return hit
}

func (h *fakeHost) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inFlight--
}

// fakeConn is one libvirt connection to a fakeHost.
type fakeConn struct {
	host *fakeHost
	once sync.Once
	done chan struct{}
}

func newFakeConn(h *fakeHost) *fakeConn {
	c := &fakeConn{host: h, done: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns[c] = struct{}{}
	return c
}

func (c *fakeConn) Done() <-chan struct{} { return c.done }

func (c *fakeConn) Close() error {
	c.kill()
	return nil
}

func (c *fakeConn) kill() {
	c.once.Do(func() {
		close(c.done)
		c.host.mu.Lock()
		defer c.host.mu.Unlock()
		delete(c.host.conns, c)
	})
}

// fakeRPC runs one call: it is recorded, meets its fault, and takes effect under the host's lock.
// Like the real adapter, it drops the connection when ctx ends in the middle of a call.
func fakeRPC[T any](ctx context.Context, c *fakeConn, method, arg string, effect func(h *fakeHost) (T, error)) (T, error) {
	var zero T
	f := c.host.enter(method, arg)
	defer c.host.leave()
	select {
	case <-c.done:
		return zero, errFakeLost
	default:
	}
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	if f != nil {
		if err := c.meet(ctx, f); err != nil {
			return zero, err
		}
	}
	c.host.mu.Lock()
	out, err := effect(c.host)
	c.host.mu.Unlock()
	if f != nil && f.after {
		if failure := c.fail(f); failure != nil {
			return zero, failure
		}
	}
	return out, err
}

// meet is the part of a fault that comes before the effect.
func (c *fakeConn) meet(ctx context.Context, f *fault) error {
	if f.hook != nil {
		f.hook()
	}
	if f.block != nil {
		select {
		case <-f.block:
		case <-c.done:
			return errFakeLost
		case <-ctx.Done():
			c.kill()
			return ctx.Err()
		}
	}
	if f.after {
		return nil
	}
	return c.fail(f)
}

func (c *fakeConn) fail(f *fault) error {
	if f.drop {
		c.kill()
		if f.err == nil {
			return errFakeLost
		}
	}
	return f.err
}

// done0 is the result of a call that only succeeds.
type done0 struct{}

// fakeLink is one SSH connection to a fakeHost.
type fakeLink struct {
	host *fakeHost

	mu    sync.Mutex
	conns []*fakeConn
	once  sync.Once
	done  chan struct{}
}

func (l *fakeLink) Open(ctx context.Context) (conn, error) {
	f := l.host.enter("open", l.host.name)
	defer l.host.leave()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case <-l.done:
		return nil, errFakeLost
	default:
	}
	c := newFakeConn(l.host)
	if f != nil {
		if err := c.meet(ctx, f); err != nil {
			c.kill()
			return nil, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, c)
	return c, nil
}

func (l *fakeLink) Done() <-chan struct{} { return l.done }

func (l *fakeLink) Close() error {
	l.once.Do(func() { close(l.done) })
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.kill()
	}
	return nil
}

// fakeDialer reaches fakeHosts by the name of the configured host.
type fakeDialer struct {
	mu    sync.Mutex
	hosts map[string]*fakeHost
	errs  map[string]error
	holds map[string]<-chan struct{}
	dials map[string]int
	links []*fakeLink
}

func newFakeDialer(hosts ...*fakeHost) *fakeDialer {
	d := &fakeDialer{
		hosts: map[string]*fakeHost{}, errs: map[string]error{},
		holds: map[string]<-chan struct{}{}, dials: map[string]int{},
	}
	for _, h := range hosts {
		d.hosts[h.name] = h
	}
	return d
}

// refuse lets dials of a host fail with err; nil lets them work again.
func (d *fakeDialer) refuse(host string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.errs[host] = err
}

// hold keeps dials of a host waiting until release is closed or their ctx ends.
func (d *fakeDialer) hold(host string, release <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.holds[host] = release
}

// dialed says how often a host was dialled.
func (d *fakeDialer) dialed(host string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dials[host]
}

// openLinks says how many links were not closed yet.
func (d *fakeDialer) openLinks() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, l := range d.links {
		select {
		case <-l.done:
		default:
			n++
		}
	}
	return n
}

func (d *fakeDialer) Dial(ctx context.Context, host provider.KVMHost) (link, error) {
	d.mu.Lock()
	d.dials[host.Name]++
	h, err, held := d.hosts[host.Name], d.errs[host.Name], d.holds[host.Name]
	d.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	case h == nil:
		return nil, errors.New("fake: no such host: " + host.Name)
	}
	l := &fakeLink{host: h, done: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.links = append(d.links, l)
	return l, nil
}

func (c *fakeConn) ConnectGetLibVersion(ctx context.Context) (uint64, error) {
	return fakeRPC(ctx, c, "ConnectGetLibVersion", "", func(h *fakeHost) (uint64, error) { return h.libVersion, nil })
}

func (c *fakeConn) ConnectGetHostname(ctx context.Context) (string, error) {
	return fakeRPC(ctx, c, "ConnectGetHostname", "", func(h *fakeHost) (string, error) { return h.hostname, nil })
}

func (c *fakeConn) ConnectGetCapabilities(ctx context.Context) (string, error) {
	return fakeRPC(ctx, c, "ConnectGetCapabilities", "", func(h *fakeHost) (string, error) { return h.capabilities, nil })
}

// fakeNow is the time that a new or written volume gets.
func fakeNow() time.Time { return time.Now() }
