package kvm2

import (
	"sync"
	"testing"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// These tests take hosts over the production dialer.

func (h *testHost) hosts(t *testing.T) *hosts {
	t.Helper()
	hs := newHosts([]provider.KVMHost{h.host}, h.dialer)
	t.Cleanup(hs.Close)
	return hs
}

// TestHosts_fiftyDaemonRestartsNeedOneLogin: closing a forwarded channel leaves the SSH connection, which
// is used again, and never piles up.
func TestHosts_fiftyDaemonRestartsNeedOneLogin(t *testing.T) {
	peer := newRPCPeer().on(procConnectGetHostname, func(r *rpcRequest) { r.hangUp() })
	h := startHost(t, &sshServer{forward: forwardTo(peer)})
	hs := h.hosts(t)
	for i := range 50 {
		c, err := hs.control(t.Context(), "beelink")
		if err != nil {
			t.Fatalf("connect after %d restarts: %v", i, err)
		}
		_, err = c.ConnectGetHostname(t.Context())
		wantError(t, err, provider.ErrTransient, provider.ReasonUnreachable)
		<-c.Done()
	}
	if logins, open := h.server.logins.Load(), h.server.open.Load(); logins != 1 || open != 1 {
		t.Errorf("%d logins and %d TCP connections after 50 restarts of the daemon, want one of each", logins, open)
	}
}

// TestHosts_permissionGivenMeanwhileWorks: the groups of a login are those of its beginning.
func TestHosts_permissionGivenMeanwhileWorks(t *testing.T) {
	peer := newRPCPeer()
	h := startHost(t, &sshServer{forward: forwardTo(peer)})
	first := true
	peer.on(procConnectOpen, func(r *rpcRequest) {
		if h.server.logins.Load() == 1 {
			first = false
			r.fail(94, "authentication unavailable: no polkit agent available")
			return
		}
		r.reply(nil)
	})
	hs := h.hosts(t)
	_, err := hs.control(t.Context(), "beelink")
	wantError(t, err, provider.ErrPermanent, provider.ReasonPermissionDenied)
	if _, err := hs.control(t.Context(), "beelink"); err != nil || first {
		t.Errorf("the second try did not log in anew: %v", err)
	}
	eventually(t, "the end of the first login", func() bool { return h.server.open.Load() == 1 })
}

// TestHosts_lossOfPowerIsNoticedAndMended: TCP stays open, nothing answers, and later the host is back.
func TestHosts_lossOfPowerIsNoticedAndMended(t *testing.T) {
	peer := newRPCPeer().on(procConnectGetHostname, func(r *rpcRequest) { r.reply(xdr("kvm")) })
	h := startHost(t, &sshServer{forward: forwardTo(peer)}, func(h *testHost) {
		h.dialer.limits.keepaliveEvery, h.dialer.limits.keepaliveMisses = 20*time.Millisecond, 3
	})
	hs := h.hosts(t)
	c, err := hs.control(t.Context(), "beelink")
	if err != nil {
		t.Fatal(err)
	}
	h.server.freeze()
	pending := make(chan error, 1)
	go func() { _, err := c.ConnectGetHostname(t.Context()); pending <- err }()
	within(t, 3*time.Second, "the end of the connection to a host without power", func() {
		wantError(t, <-pending, provider.ErrTransient, provider.ReasonUnreachable)
	})
	h.server.thaw()
	if c, err = hs.control(t.Context(), "beelink"); err != nil {
		t.Fatalf("the host is back and cannot be reached: %v", err)
	}
	if _, err := c.ConnectGetHostname(t.Context()); err != nil {
		t.Errorf("call: %v", err)
	}
}

// TestHosts_thirtyCallersAgainstThrottling: an sshd that drops all but one login at a time serves all.
func TestHosts_thirtyCallersAgainstThrottling(t *testing.T) {
	peer := newRPCPeer().on(procConnectGetHostname, func(r *rpcRequest) { r.reply(xdr("kvm")) })
	h := startHost(t, &sshServer{forward: forwardTo(peer), maxStartups: 1})
	hs := h.hosts(t)
	var callers sync.WaitGroup
	for range 30 {
		callers.Go(func() {
			c, err := hs.control(t.Context(), "beelink")
			if err == nil {
				_, err = c.ConnectGetHostname(t.Context())
			}
			if err != nil {
				t.Errorf("a caller among thirty: %v", err)
			}
		})
		callers.Go(func() {
			c, err := hs.dedicated(t.Context(), "beelink")
			if err != nil {
				t.Errorf("a dedicated connection among thirty: %v", err)
				return
			}
			_ = c.Close()
		})
	}
	callers.Wait()
	eventually(t, "the end of the dedicated connections", func() bool { return h.server.open.Load() == 1 })
}
