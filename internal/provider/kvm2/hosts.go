package kvm2

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// connectLimit ends an attempt to connect: a channel on a link that has died unnoticed, the logins
// before it, its own, a channel. The dialer's own limits for one add up to less.
const connectLimit = 45 * time.Second

// hosts has the connections to an entry's hosts: one cached control connection each, made when it is
// first needed and again when it is lost.
type hosts struct {
	order  []string
	byName map[string]*hostConns
}

// newHosts makes no connection.
func newHosts(cfg []provider.KVMHost, d dialer) *hosts {
	h := &hosts{byName: make(map[string]*hostConns, len(cfg))}
	for _, host := range cfg {
		h.order = append(h.order, host.Name)
		h.byName[host.Name] = newHostConns(host, d)
	}
	return h
}

// names gives the hosts in the configuration's order.
func (h *hosts) names() []string { return h.order }

// control gives the host's shared connection. Nobody closes it but hosts.
// An unknown zone is ErrPermanent with ReasonHostNotConfigured.
func (h *hosts) control(ctx context.Context, zone string) (conn, error) {
	host, err := h.find(zone)
	if err != nil {
		return nil, err
	}
	return host.sharedConn(ctx)
}

// secondary gives a connection of its own over the host's shared SSH connection, for a small transfer.
// The caller closes it.
func (h *hosts) secondary(ctx context.Context, zone string) (conn, error) {
	host, err := h.find(zone)
	if err != nil {
		return nil, err
	}
	return host.secondaryConn(ctx)
}

// dedicated gives a connection with an SSH connection of its own, for an image or a health check. The
// caller closes it, which closes both.
func (h *hosts) dedicated(ctx context.Context, zone string) (conn, error) {
	host, err := h.find(zone)
	if err != nil {
		return nil, err
	}
	return host.dedicatedConn(ctx)
}

// Close ends every connection and every attempt to make one, and waits for the attempts.
func (h *hosts) Close() {
	for _, name := range h.order {
		h.byName[name].close()
	}
}

func (h *hosts) find(zone string) (*hostConns, error) {
	host, ok := h.byName[zone]
	if !ok {
		return nil, provider.Errorf(provider.ErrPermanent, provider.ReasonHostNotConfigured,
			"no host %q is configured", zone)
	}
	return host, nil
}

// hostConns are one host's connections.
type hostConns struct {
	host   provider.KVMHost
	dialer dialer
	// login is held during an SSH login: sshd throttles those that come together (MaxStartups).
	login chan struct{}

	mu      sync.Mutex
	link    link // of the control connection; nil until dialled and after it was dropped
	shared  conn
	attempt *attempt
	owned   map[link]struct{} // of dedicated connections
	closed  bool
	// tasks are the efforts to connect that are under way, cancels ends them.
	tasks   sync.WaitGroup
	cancels map[*attempt]context.CancelFunc
}

// attempt is one effort to connect. conn and err are set before done is closed.
type attempt struct {
	done chan struct{}
	conn conn
	err  error
}

func newHostConns(host provider.KVMHost, d dialer) *hostConns {
	return &hostConns{
		host: host, dialer: d, login: make(chan struct{}, 1),
		owned: map[link]struct{}{}, cancels: map[*attempt]context.CancelFunc{},
	}
}

// begin notes an attempt, so that close can end it. It is called with the lock held and the host open.
func (h *hostConns) begin(ctx context.Context) (context.Context, *attempt) {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	a := &attempt{done: make(chan struct{})}
	h.cancels[a] = cancel
	h.tasks.Add(1)
	return ctx, a
}

// end takes an attempt off the notes, with the lock held.
func (h *hostConns) end(a *attempt) {
	h.cancels[a]()
	delete(h.cancels, a)
	h.tasks.Done()
}

// errHostsClosed: the provider was closed.
var errHostsClosed = errors.New("the provider was closed")

func (h *hostConns) errClosed() error {
	return provider.Errorf(provider.ErrTransient, provider.ReasonCanceled, "host %s: %w", h.host.Name, errHostsClosed)
}

// sharedConn gives the cached connection, or the result of the one attempt that all callers share.
func (h *hostConns) sharedConn(ctx context.Context) (conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("connect to host %s: %w", h.host.Name, err)
	}
	h.mu.Lock()
	switch {
	case h.closed:
		h.mu.Unlock()
		return nil, h.errClosed()
	case h.shared != nil && alive(h.shared):
		defer h.mu.Unlock()
		return h.shared, nil
	case h.attempt == nil:
		h.attempt = h.start(ctx)
	}
	a := h.attempt
	h.mu.Unlock()
	select {
	case <-a.done:
		return a.conn, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("connect to host %s: %w", h.host.Name, ctx.Err())
	}
}

// start begins an attempt that outlives the caller who needed it first: others wait for it too. It
// keeps that caller's logger and span.
func (h *hostConns) start(ctx context.Context) *attempt {
	ctx, a := h.begin(context.WithoutCancel(ctx))
	go func() {
		l, c, err := h.connect(ctx)
		h.mu.Lock()
		defer h.mu.Unlock()
		defer h.end(a)
		h.attempt = nil
		if err == nil && h.closed {
			_ = l.Close() // never fails
			c, err = nil, h.errClosed()
		}
		if err == nil {
			h.link, h.shared = l, c
		}
		a.conn, a.err = c, err
		close(a.done)
	}()
	return a
}

// connect opens a connection over the link that is there, or else over a new one. A link on which that
// fails is dropped: a new login may have rights that the old one lacks, and a host that was
// restarted answers only a new one.
func (h *hostConns) connect(ctx context.Context) (link, conn, error) {
	if l := h.takeLink(); l != nil {
		c, err := l.Open(ctx)
		if err == nil {
			return l, c, nil
		}
		_ = l.Close() // never fails
		if ctx.Err() != nil {
			return nil, nil, err
		}
	}
	return h.dial(ctx)
}

// takeLink gives the link if it lives, and forgets it.
func (h *hostConns) takeLink() link {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.link
	h.link, h.shared = nil, nil
	if l == nil || !alive(l) {
		return nil
	}
	return l
}

// dial logs in, one at a time, and opens a connection.
func (h *hostConns) dial(ctx context.Context) (link, conn, error) {
	select {
	case h.login <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("wait for another login to host %s: %w", h.host.Name, ctx.Err())
	}
	l, err := h.dialer.Dial(ctx, h.host)
	<-h.login
	if err != nil {
		return nil, nil, err
	}
	c, err := l.Open(ctx)
	if err != nil {
		_ = l.Close() // never fails
		return nil, nil, err
	}
	return l, c, nil
}

func (h *hostConns) secondaryConn(ctx context.Context) (conn, error) {
	if _, err := h.sharedConn(ctx); err != nil {
		return nil, err
	}
	h.mu.Lock()
	l := h.link
	h.mu.Unlock()
	if l == nil {
		return nil, provider.Errorf(provider.ErrTransient, provider.ReasonUnreachable,
			"host %s: the connection was lost while another was being opened", h.host.Name)
	}
	return l.Open(ctx)
}

func (h *hostConns) dedicatedConn(ctx context.Context) (conn, error) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil, h.errClosed()
	}
	ctx, a := h.begin(ctx)
	h.mu.Unlock()
	l, c, err := h.dial(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.end(a)
	switch {
	case err != nil:
		return nil, err
	case h.closed:
		_ = l.Close() // never fails
		return nil, h.errClosed()
	}
	h.owned[l] = struct{}{}
	return &dedicatedConn{conn: c, release: func() error { return h.release(l) }}, nil
}

func (h *hostConns) release(l link) error {
	h.mu.Lock()
	delete(h.owned, l)
	h.mu.Unlock()
	return l.Close()
}

// dedicatedConn takes its SSH connection with it.
type dedicatedConn struct {
	conn
	release func() error
}

// Close ends the connection and its SSH connection.
func (c *dedicatedConn) Close() error { return errors.Join(c.conn.Close(), c.release()) }

func (h *hostConns) close() {
	h.mu.Lock()
	h.closed = true
	for _, cancel := range h.cancels {
		cancel()
	}
	links := make([]link, 0, len(h.owned)+1)
	for l := range h.owned {
		links = append(links, l)
	}
	if h.link != nil {
		links = append(links, h.link)
	}
	h.link, h.shared = nil, nil
	h.mu.Unlock()
	for _, l := range links {
		_ = l.Close() // never fails
	}
	h.tasks.Wait()
}

// alive tells whether a connection or link is not known to be dead.
func alive(c interface{ Done() <-chan struct{} }) bool {
	select {
	case <-c.Done():
		return false
	default:
		return true
	}
}
