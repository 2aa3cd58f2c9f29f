package kvm2

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// stubDialer makes links of stubs, and counts.
type stubDialer struct {
	// onDial, if set, runs in each Dial; its error is Dial's. onOpen likewise in each Open.
	onDial func(context.Context, provider.KVMHost) error
	onOpen func(*stubLink) error

	dials, inFlight, maxInFlight atomic.Int32

	mu    sync.Mutex
	links []*stubLink
}

func (d *stubDialer) Dial(ctx context.Context, host provider.KVMHost) (link, error) {
	d.dials.Add(1)
	now := d.inFlight.Add(1)
	defer d.inFlight.Add(-1)
	for most := d.maxInFlight.Load(); now > most && !d.maxInFlight.CompareAndSwap(most, now); {
		most = d.maxInFlight.Load()
	}
	if d.onDial != nil {
		if err := d.onDial(ctx, host); err != nil {
			return nil, err
		}
	}
	l := &stubLink{dialer: d, stubEnd: newStubEnd()}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.links = append(d.links, l)
	return l, nil
}

// alive counts the links that were not closed.
func (d *stubDialer) alive() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, l := range d.links {
		if alive(l) {
			n++
		}
	}
	return n
}

// stubEnd is the Done and Close of a stub.
type stubEnd struct {
	done chan struct{}
	once *sync.Once
}

func newStubEnd() stubEnd { return stubEnd{make(chan struct{}), new(sync.Once)} }

func (e stubEnd) Done() <-chan struct{} { return e.done }
func (e stubEnd) HostTime(context.Context) (time.Time, error) {
	return time.Time{}, errNoShell
}
func (e stubEnd) Close() error { e.once.Do(func() { close(e.done) }); return nil }

type stubLink struct {
	stubEnd
	dialer *stubDialer
	opens  atomic.Int32
}

func (l *stubLink) Open(context.Context) (conn, error) {
	l.opens.Add(1)
	if l.dialer.onOpen != nil {
		if err := l.dialer.onOpen(l); err != nil {
			return nil, err
		}
	}
	return &stubConn{stubEnd: newStubEnd(), link: l}, nil
}

// stubConn has no calls: hosts makes none.
type stubConn struct {
	backend
	stubEnd
	link *stubLink
}

// linkOf gives the link that a connection of stubs runs over.
func linkOf(c conn) *stubLink {
	if d, ok := c.(*dedicatedConn); ok {
		c = d.conn
	}
	return c.(*stubConn).link
}

func newTestHosts(t *testing.T, d dialer, names ...string) *hosts {
	t.Helper()
	if len(names) == 0 {
		names = []string{"beelink"}
	}
	var cfg []provider.KVMHost
	for _, name := range names {
		cfg = append(cfg, provider.KVMHost{Name: name})
	}
	h := newHosts(cfg, d)
	t.Cleanup(h.Close)
	return h
}

func mustControl(t *testing.T, h *hosts) conn {
	t.Helper()
	c, err := h.control(t.Context(), "beelink")
	if err != nil {
		t.Fatalf("control: %v", err)
	}
	return c
}

func TestHosts_oneDialPerHostUnderConcurrency(t *testing.T) {
	release := make(chan struct{})
	d := &stubDialer{onDial: func(context.Context, provider.KVMHost) error { <-release; return nil }}
	h := newTestHosts(t, d)
	conns := make(chan conn, 30)
	var callers sync.WaitGroup
	for range cap(conns) {
		callers.Go(func() {
			c, err := h.control(t.Context(), "beelink")
			if err != nil {
				t.Errorf("control: %v", err)
			}
			conns <- c
		})
	}
	eventually(t, "a dial", func() bool { return d.dials.Load() > 0 })
	close(release)
	callers.Wait()
	close(conns)
	first := <-conns
	for c := range conns {
		if c != first {
			t.Error("two callers got different connections to one host")
		}
	}
	if n := d.dials.Load(); n != 1 {
		t.Errorf("%d dials for 30 callers, want 1", n)
	}
}

func TestHosts_redialsAfterDrop(t *testing.T) {
	d := &stubDialer{}
	h := newTestHosts(t, d)
	first := mustControl(t, h)
	_ = linkOf(first).Close()
	_ = first.Close()
	second := mustControl(t, h)
	if second == first || d.dials.Load() != 2 {
		t.Errorf("after the link was lost: same connection %v, %d dials; want a new one over a second dial", second == first, d.dials.Load())
	}
}

// TestHosts_reopensOverTheLivingLink: a call that was given up costs its connection, not the login.
func TestHosts_reopensOverTheLivingLink(t *testing.T) {
	d := &stubDialer{}
	h := newTestHosts(t, d)
	first := mustControl(t, h)
	_ = first.Close()
	second := mustControl(t, h)
	if second == first || d.dials.Load() != 1 || linkOf(second) != linkOf(first) {
		t.Errorf("want a new connection over the same link; %d dials", d.dials.Load())
	}
}

// TestHosts_failedOpenNeedsANewLogin: a login keeps the groups it began with, so a permission that was
// given meanwhile works only after a new one.
func TestHosts_failedOpenNeedsANewLogin(t *testing.T) {
	d := &stubDialer{}
	h := newTestHosts(t, d)
	first := mustControl(t, h)
	old := linkOf(first)
	d.onOpen = func(l *stubLink) error {
		if l == old {
			return errors.New("permission denied")
		}
		return nil
	}
	_ = first.Close()
	second := mustControl(t, h)
	if linkOf(second) == old || d.dials.Load() != 2 {
		t.Errorf("%d dials, want a second one", d.dials.Load())
	}
	if alive(old) {
		t.Error("the old login lives on, want at most one per host")
	}
}

func TestHosts_failedFirstOpenClosesTheLink(t *testing.T) {
	denied := errors.New("permission denied")
	d := &stubDialer{onOpen: func(*stubLink) error { return denied }}
	h := newTestHosts(t, d)
	for range 3 {
		if _, err := h.control(t.Context(), "beelink"); !errors.Is(err, denied) {
			t.Fatalf("error is %v, want the link's", err)
		}
	}
	if d.alive() != 0 || d.dials.Load() != 3 {
		t.Errorf("%d links live after %d dials, want none after 3: each try logs in anew", d.alive(), d.dials.Load())
	}
}

func TestHosts_unconfiguredHostIsPermanent(t *testing.T) {
	d := &stubDialer{}
	h := newTestHosts(t, d)
	for name, get := range map[string]func(context.Context, string) (conn, error){
		"Control": h.control, "Secondary": h.secondary, "Dedicated": h.dedicated,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := get(t.Context(), "elsewhere")
			wantError(t, err, provider.ErrPermanent, provider.ReasonHostNotConfigured, "elsewhere")
		})
	}
	if d.dials.Load() != 0 {
		t.Error("a host that is not configured was dialled")
	}
}

func TestHosts_oneCallersCancelLeavesTheDialToOthers(t *testing.T) {
	release := make(chan struct{})
	d := &stubDialer{onDial: func(ctx context.Context, _ provider.KVMHost) error {
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	h := newTestHosts(t, d)
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { _, err := h.control(ctx, "beelink"); first <- err }()
	eventually(t, "the dial", func() bool { return d.dials.Load() == 1 })
	second := make(chan error, 1)
	go func() { _, err := h.control(t.Context(), "beelink"); second <- err }()
	cancel()
	var err error
	within(t, time.Second, "the cancelled caller", func() { err = <-first })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled caller got %v, want its ctx's error", err)
	}
	close(release)
	if err := <-second; err != nil {
		t.Errorf("the other caller got %v, want the connection", err)
	}
	if n := d.dials.Load(); n != 1 {
		t.Errorf("%d dials, want the one that both shared", n)
	}
}

func TestHosts_failureIsNotKept(t *testing.T) {
	var down atomic.Bool
	down.Store(true)
	refused := errors.New("connection refused")
	d := &stubDialer{onDial: func(context.Context, provider.KVMHost) error {
		if down.Load() {
			return refused
		}
		return nil
	}}
	h := newTestHosts(t, d)
	if _, err := h.control(t.Context(), "beelink"); !errors.Is(err, refused) {
		t.Fatalf("error is %v, want the dial's", err)
	}
	down.Store(false)
	mustControl(t, h)
}

func TestHosts_hostsDoNotWaitForEachOther(t *testing.T) {
	release := make(chan struct{})
	d := &stubDialer{onDial: func(ctx context.Context, host provider.KVMHost) error {
		if host.Name == "slow" {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return ctx.Err()
	}}
	h := newTestHosts(t, d, "slow", "beelink")
	slow := make(chan error, 1)
	go func() { _, err := h.control(t.Context(), "slow"); slow <- err }()
	eventually(t, "the slow dial", func() bool { return d.dials.Load() == 1 })
	within(t, time.Second, "the other host's dial", func() { mustControl(t, h) })
	close(release)
	if err := <-slow; err != nil {
		t.Errorf("the slow host: %v", err)
	}
}

func TestHosts_secondarySharesTheLink(t *testing.T) {
	d := &stubDialer{}
	h := newTestHosts(t, d)
	second, err := h.secondary(t.Context(), "beelink")
	if err != nil {
		t.Fatal(err)
	}
	first := mustControl(t, h)
	if second == first || linkOf(second) != linkOf(first) {
		t.Error("want a second connection over the same SSH connection")
	}
	_ = second.Close()
	if !alive(first) || !alive(linkOf(first)) {
		t.Error("closing the second connection took the first, or the SSH connection, with it")
	}
}

func TestHosts_dedicatedHasItsOwnLink(t *testing.T) {
	d := &stubDialer{}
	h := newTestHosts(t, d)
	first := mustControl(t, h)
	own, err := h.dedicated(t.Context(), "beelink")
	if err != nil {
		t.Fatal(err)
	}
	l := linkOf(own)
	if l == linkOf(first) {
		t.Fatal("the dedicated connection shares the control connection's SSH connection")
	}
	_ = own.Close()
	if alive(l) || alive(own) {
		t.Error("Close left the connection or its SSH connection open")
	}
	if !alive(first) || !alive(linkOf(first)) {
		t.Error("Close took the control connection with it")
	}
}

// TestHosts_oneLoginInFlightPerHost: sshd drops logins that come together (MaxStartups).
func TestHosts_oneLoginInFlightPerHost(t *testing.T) {
	d := &stubDialer{onDial: func(context.Context, provider.KVMHost) error {
		timer := time.NewTimer(2 * time.Millisecond)
		<-timer.C
		return nil
	}}
	h := newTestHosts(t, d)
	var callers sync.WaitGroup
	for range 10 {
		callers.Go(func() {
			c, err := h.dedicated(t.Context(), "beelink")
			if err != nil {
				t.Errorf("dedicated: %v", err)
				return
			}
			_ = c.Close()
		})
		callers.Go(func() { _, _ = h.control(t.Context(), "beelink") })
	}
	callers.Wait()
	if n := d.maxInFlight.Load(); n != 1 {
		t.Errorf("%d logins at once, want 1", n)
	}
	if n := d.dials.Load(); n != 11 {
		t.Errorf("%d dials, want ten for the dedicated connections and one for control", n)
	}
}

func TestHosts_waitForALoginRespectsCancel(t *testing.T) {
	release := make(chan struct{})
	d := &stubDialer{onDial: func(context.Context, provider.KVMHost) error { <-release; return nil }}
	h := newTestHosts(t, d)
	defer close(release)
	go func() { _, _ = h.control(t.Context(), "beelink") }()
	eventually(t, "the first login", func() bool { return d.dials.Load() == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	var err error
	within(t, time.Second, "the wait", func() { _, err = h.dedicated(ctx, "beelink") })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v, want ctx's own", err)
	}
}

func TestHosts_namesInConfigOrder(t *testing.T) {
	h := newTestHosts(t, &stubDialer{}, "zeta", "alpha", "mid")
	if got := h.names(); !slices.Equal(got, []string{"zeta", "alpha", "mid"}) {
		t.Errorf("names = %v, want the configuration's order", got)
	}
}

func TestHosts_closeEndsEverything(t *testing.T) {
	hang := make(chan struct{}, 1)
	d := &stubDialer{}
	h := newTestHosts(t, d, "beelink", "hanging")
	mustControl(t, h)
	if _, err := h.dedicated(t.Context(), "beelink"); err != nil {
		t.Fatal(err)
	}
	d.onDial = func(ctx context.Context, _ provider.KVMHost) error {
		hang <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	waiting := make(chan error, 1)
	go func() { _, err := h.control(t.Context(), "hanging"); waiting <- err }()
	<-hang
	within(t, time.Second, "Close with a dial under way", h.Close)
	if err := <-waiting; err == nil {
		t.Error("the dial under way gave a connection after Close")
	}
	if n := d.alive(); n != 0 {
		t.Errorf("%d SSH connections live after Close", n)
	}
	_, err := h.control(t.Context(), "beelink")
	wantError(t, err, provider.ErrTransient, provider.ReasonCanceled)
	_, err = h.dedicated(t.Context(), "beelink")
	if err == nil {
		t.Error("a dedicated connection was made after Close")
	}
}
