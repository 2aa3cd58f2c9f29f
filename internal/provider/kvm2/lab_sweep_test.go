//go:build lab

package kvm2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// TestLab_resumesAfterEachPartialStep cuts a create off at each of its calls that matter, before and
// after it took effect, on a real host, finishes it as another process would, and deletes it the same
// way. Each cut has an instance of its own, so several are tried at a time.
func TestLab_resumesAfterEachPartialStep(t *testing.T) {
	it := newIntegration(t)
	clean := &cutter{}
	it.must(t, clean, it.create)
	creating := clean.take()
	it.must(t, clean, it.delete)
	deleting := clean.take()
	t.Logf("cutting off at %v and %v", creating, deleting)
	for k := 1; k <= max(len(creating), len(deleting)); k++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("call %d, after its effect %v", k, after), func(t *testing.T) {
				t.Parallel()
				one := *it
				one.renew()
				firstErr := one.try(t, &cutter{at: k, after: after}, one.create)
				one.must(t, &cutter{}, one.create)
				one.wantVolumes(t, "create", seedName(one.request.Name), overlayName(one.request.Name))
				if !slices.Contains(one.domains(t), one.request.Name) {
					t.Errorf("create (%v): there is no domain", firstErr)
				}
				firstErr = one.try(t, &cutter{at: k, after: after}, one.delete)
				one.must(t, &cutter{}, one.delete)
				one.wantVolumes(t, "delete")
				if slices.Contains(one.domains(t), one.request.Name) {
					t.Errorf("delete (%v): the domain is left", firstErr)
				}
			})
		}
	}
}

// TestLab_processesAtOnce runs one request in several processes' providers at the same time.
func TestLab_processesAtOnce(t *testing.T) {
	it := newIntegration(t)
	before := it.domains(t)
	var calls sync.WaitGroup
	for range 6 {
		calls.Go(func() {
			// The loser of a race gets Transient and finds the winner's instance when it repeats.
			for attempt := 1; ; attempt++ {
				err := it.try(t, &cutter{}, it.create)
				switch {
				case err == nil:
					return
				case attempt == 5 || !errors.Is(err, provider.ErrTransient):
					t.Errorf("create, attempt %d: %v", attempt, err)
					return
				}
				t.Logf("attempt %d: %v", attempt, err)
			}
		})
	}
	calls.Wait()
	if got := len(it.domains(t)) - len(before); got != 1 {
		t.Errorf("%d domains more than before, want 1", got)
	}
	it.wantVolumes(t, "in the end", seedName(it.request.Name), overlayName(it.request.Name))
	it.must(t, &cutter{}, it.delete)
}

func (it *integration) create(ctx context.Context, p *Provider) error {
	_, err := p.Create(ctx, it.request)
	return err
}

func (it *integration) delete(ctx context.Context, p *Provider) error { return p.Delete(ctx, it.id()) }

func (it *integration) wantVolumes(t *testing.T, at string, want ...string) {
	t.Helper()
	console := consoleLogName(it.request.Name) // in the listing only after the pool's next refresh
	got := slices.DeleteFunc(it.volumes(t), func(name string) bool {
		return !strings.HasPrefix(name, it.request.Name) || name == console && len(want) > 0
	})
	if !slices.Equal(got, want) {
		t.Errorf("%s: volumes %v, want %v", at, got, want)
	}
}

// try runs one call in a provider of its own, as one process does.
func (it *integration) try(t *testing.T, c *cutter, call func(context.Context, *Provider) error) error {
	t.Helper()
	c.dialer = newSSHDialer(it.entry.KVM2, logr.Discard())
	p := newProvider(it.entry, provider.Options{Owner: it.request.Owner, Log: it.log}, c)
	defer func() { _ = p.Close() }()                   // always nil
	return call(context.WithoutCancel(t.Context()), p) // a clean-up calls too
}

func (it *integration) must(t *testing.T, c *cutter, call func(context.Context, *Provider) error) {
	t.Helper()
	if err := it.try(t, c, call); err != nil {
		t.Fatalf("without a fault: %v", err)
	}
}

// cutter is a dialer whose connections die at one call.
type cutter struct {
	dialer
	at    int // counted over all connections, from 1; 0 is never
	after bool

	mu    sync.Mutex
	calls []string
}

func (c *cutter) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.calls
	c.calls = nil
	return out
}

func (c *cutter) due(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, name)
	return len(c.calls) == c.at
}

func (c *cutter) Dial(ctx context.Context, host provider.KVMHost) (link, error) {
	l, err := c.dialer.Dial(ctx, host)
	if err != nil {
		return nil, err
	}
	return cutLink{l, c}, nil
}

type cutLink struct {
	link
	cutter *cutter
}

func (l cutLink) Open(ctx context.Context) (conn, error) {
	c, err := l.link.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &cutConn{conn: c, link: l.link, cutter: l.cutter}, nil
}

// cutConn covers the calls that write, and the looks between them.
type cutConn struct {
	conn
	link   link
	cutter *cutter
}

func cutCall[T any](c *cutConn, name string, call func() (T, error)) (T, error) {
	if !c.cutter.due(name) {
		return call()
	}
	var zero T
	if c.cutter.after {
		if _, err := call(); err != nil {
			return zero, err
		}
	}
	_ = c.link.Close()
	return zero, io.ErrUnexpectedEOF
}

func cutPlain(c *cutConn, name string, call func() error) error {
	_, err := cutCall(c, name, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

func (c *cutConn) DomainLookupByName(ctx context.Context, name string) (domain, error) {
	return cutCall(c, "DomainLookupByName", func() (domain, error) { return c.conn.DomainLookupByName(ctx, name) })
}

func (c *cutConn) DomainDefineXML(ctx context.Context, xml string) (domain, error) {
	return cutCall(c, "DomainDefineXML", func() (domain, error) { return c.conn.DomainDefineXML(ctx, xml) })
}

func (c *cutConn) DomainGetXMLDesc(ctx context.Context, d domain) (string, error) {
	return cutCall(c, "DomainGetXMLDesc", func() (string, error) { return c.conn.DomainGetXMLDesc(ctx, d) })
}

func (c *cutConn) DomainSetAutostart(ctx context.Context, d domain, on bool) error {
	return cutPlain(c, "DomainSetAutostart", func() error { return c.conn.DomainSetAutostart(ctx, d, on) })
}

func (c *cutConn) DomainCreate(ctx context.Context, d domain) error {
	return cutPlain(c, "DomainCreate", func() error { return c.conn.DomainCreate(ctx, d) })
}

func (c *cutConn) DomainDestroy(ctx context.Context, d domain) error {
	return cutPlain(c, "DomainDestroy", func() error { return c.conn.DomainDestroy(ctx, d) })
}

func (c *cutConn) DomainUndefineFlags(ctx context.Context, d domain, flags uint32) error {
	return cutPlain(c, "DomainUndefineFlags", func() error { return c.conn.DomainUndefineFlags(ctx, d, flags) })
}

func (c *cutConn) StorageVolCreateXML(ctx context.Context, p pool, xml string) (volume, error) {
	return cutCall(c, "StorageVolCreateXML", func() (volume, error) { return c.conn.StorageVolCreateXML(ctx, p, xml) })
}

func (c *cutConn) StorageVolUpload(ctx context.Context, v volume, r io.Reader, length uint64) error {
	return cutPlain(c, "StorageVolUpload", func() error { return c.conn.StorageVolUpload(ctx, v, r, length) })
}

func (c *cutConn) StorageVolDelete(ctx context.Context, v volume) error {
	return cutPlain(c, "StorageVolDelete", func() error { return c.conn.StorageVolDelete(ctx, v) })
}
