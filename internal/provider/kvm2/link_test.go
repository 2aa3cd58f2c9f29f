package kvm2

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"
	"golang.org/x/crypto/ssh"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

func TestOpen_refusedForwarding(t *testing.T) {
	refuse := func(reason ssh.RejectionReason, text string) func(string) (net.Conn, error) {
		return func(string) (net.Conn, error) { return nil, &ssh.OpenChannelError{Reason: reason, Message: text} }
	}
	openFailed := refuse(ssh.ConnectionFailed, "open failed") // OpenSSH says this for every cause
	exits := func(status uint32) func(string) uint32 { return func(string) uint32 { return status } }
	tests := map[string]struct {
		reason  string
		forward func(string) (net.Conn, error)
		exec    func(string) uint32
		class   error
		want    string
		says    string
	}{
		"Prohibited":   {"a server that says so", refuse(ssh.Prohibited, "no"), nil, provider.ErrPermanent, provider.ReasonForwardingDenied, "AllowStreamLocalForwarding"},
		"Missing":      {"the daemon may come back", openFailed, exits(61), provider.ErrTransient, provider.ReasonSocketUnavailable, "virtproxyd"},
		"NotASocket":   {"", openFailed, exits(62), provider.ErrPermanent, provider.ReasonSocketUnavailable, "is not a socket"},
		"NotPermitted": {"", openFailed, exits(63), provider.ErrPermanent, provider.ReasonPermissionDenied, "libvirt group"},
		"Idle":         {"a daemon that crashed left its file, and will be started again", openFailed, exits(65), provider.ErrTransient, provider.ReasonSocketUnavailable, "start libvirtd"},
		"Usable":       {"the socket is fine, so sshd is not", openFailed, exits(64), provider.ErrPermanent, provider.ReasonForwardingDenied, "AllowStreamLocalForwarding"},
		"NoShell":      {"nologin prints and exits with 1", openFailed, exits(1), provider.ErrTransient, provider.ReasonSocketUnavailable, "AllowStreamLocalForwarding"},
		"NoExec":       {"a key that is restricted to forwarding", openFailed, nil, provider.ErrTransient, provider.ReasonSocketUnavailable, "AllowStreamLocalForwarding"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := startHost(t, &sshServer{forward: tc.forward, exec: tc.exec})
			_, err := h.mustDial(t).Open(t.Context())
			wantError(t, err, tc.class, tc.want, tc.says, "beelink")
		})
	}
}

func TestOpen_probeQuotesTheSocketPath(t *testing.T) {
	var asked string
	h := startHost(t, &sshServer{
		forward: func(string) (net.Conn, error) { return nil, errors.New("no") },
		exec:    func(command string) uint32 { asked = command; return 61 },
	}, func(h *testHost) { h.host.Socket = "/run/it's; $(reboot)" })
	if _, err := h.mustDial(t).Open(t.Context()); err == nil {
		t.Fatal("a refused channel gave a connection")
	}
	script := shellQuote("[ -e " + shellQuote(h.host.Socket) + " ]")
	if want := "exec sh -c " + strings.TrimSuffix(script, "'"); !strings.HasPrefix(asked, want) {
		t.Errorf("the host's shell was asked %q, want it to begin with %q: a path is never code", asked, want)
	}
}

func TestDial_socketsThatCannotServe(t *testing.T) {
	for name, socket := range map[string]string{
		"ReadOnly": "/run/libvirt/libvirt-sock-ro",
		"Relative": "libvirt/libvirt-sock",
		"Virtqemu": "/run/libvirt/virtqemud-sock",
	} {
		t.Run(name, func(t *testing.T) {
			h := startHost(t, &sshServer{}, func(h *testHost) { h.host.Socket = socket })
			_, err := h.dial(t, t.Context())
			wantError(t, err, provider.ErrPermanent, provider.ReasonSocketUnavailable, socket, "beelink")
		})
	}
}

func TestOpen_whatAnswersIsNotLibvirt(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "docker.sock")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = c.Read(make([]byte, 64))
		_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		c.Close()
	}()
	h := startHost(t, &sshServer{forward: func(path string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(t.Context(), "unix", path)
	}}, func(h *testHost) { h.host.Socket = socket })
	_, err = h.mustDial(t).Open(t.Context())
	wantError(t, err, provider.ErrPermanent, provider.ReasonSocketUnavailable, socket, "is not libvirt")
}

func TestOpen_greetingErrors(t *testing.T) {
	tests := map[string]struct {
		reason string
		script func(*rpcPeer)
		class  error
		want   string
	}{
		"Polkit": {"no agent is there to ask", func(p *rpcPeer) {
			p.on(procConnectOpen, func(r *rpcRequest) {
				r.fail(uint32(libvirt.ErrAuthUnavailable), "authentication unavailable: no polkit agent")
			})
		}, provider.ErrPermanent, provider.ReasonPermissionDenied},
		"AuthFailed": {"", func(p *rpcPeer) {
			p.on(procAuthList, func(r *rpcRequest) { r.fail(uint32(libvirt.ErrAuthFailed), "authentication failed") })
		}, provider.ErrPermanent, provider.ReasonPermissionDenied},
		"HungUp": {"max_clients is reached", func(p *rpcPeer) {
			p.on(procAuthList, func(r *rpcRequest) { r.hangUp() })
		}, provider.ErrTransient, provider.ReasonSocketUnavailable},
		"Silent": {"", func(p *rpcPeer) {
			p.on(procConnectOpen, nil)
		}, provider.ErrTransient, provider.ReasonTimeout},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			peer := newRPCPeer()
			tc.script(peer)
			h := startHost(t, &sshServer{forward: forwardTo(peer)}, func(h *testHost) { h.dialer.limits.open = 300 * time.Millisecond })
			l := h.mustDial(t)
			var err error
			within(t, 3*time.Second, "open", func() { _, err = l.Open(t.Context()) })
			wantError(t, err, tc.class, tc.want, "beelink")
		})
	}
}

func TestOpen_cancelReturnsPromptlyAndKeepsTheLink(t *testing.T) {
	peer := newRPCPeer()
	release := make(chan struct{})
	var first bool
	peer.on(procConnectOpen, func(r *rpcRequest) {
		if !first {
			first = true
			<-release
		}
		r.reply(nil)
	})
	h := startHost(t, &sshServer{forward: forwardTo(peer)})
	l := h.mustDial(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	var err error
	within(t, time.Second, "a cancelled Open", func() { _, err = l.Open(ctx) })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want the ctx's own", err)
	}
	close(release)
	<-peer.closed // what was being opened is closed when it comes
	if _, err := l.Open(t.Context()); err != nil {
		t.Errorf("the link did not survive one caller's cancellation: %v", err)
	}
}

func TestLink_closeEndsItsConnections(t *testing.T) {
	peer := newRPCPeer()
	h := startHost(t, &sshServer{forward: forwardTo(peer)})
	l := h.mustDial(t)
	first, err := l.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := l.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	within(t, 2*time.Second, "the end of both connections", func() { <-first.Done(); <-second.Done() })
	eventually(t, "the end of the TCP connection", func() bool { return h.server.open.Load() == 0 })
}

func TestLink_closingOneConnectionLeavesTheOther(t *testing.T) {
	peer := newRPCPeer().on(procConnectGetHostname, func(r *rpcRequest) { r.reply(xdr("kvm")) })
	h := startHost(t, &sshServer{forward: forwardTo(peer)})
	l := h.mustDial(t)
	first, err := l.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := l.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	<-first.Done()
	<-peer.closed
	if _, err := second.ConnectGetHostname(t.Context()); err != nil {
		t.Errorf("the second connection died with the first: %v", err)
	}
}

func TestLink_serverGoneEndsIt(t *testing.T) {
	h := startHost(t, &sshServer{})
	l := h.mustDial(t)
	h.server.drop()
	within(t, 2*time.Second, "Done after the server went away", func() { <-l.Done() })
}

// TestLink_silentHostIsCut: a host that stops answering, as after a loss of power, keeps TCP open.
func TestLink_silentHostIsCut(t *testing.T) {
	h := startHost(t, &sshServer{ignoreKeepalives: true}, func(h *testHost) {
		h.dialer.limits.keepaliveEvery, h.dialer.limits.keepaliveMisses = 20*time.Millisecond, 3
	})
	l := h.mustDial(t)
	within(t, 3*time.Second, "Done of a link without keepalives", func() { <-l.Done() })
	if !errors.Is(l.endReason(), errNoKeepalive) {
		t.Errorf("the link ended for %v, want %v", l.endReason(), errNoKeepalive)
	}
	eventually(t, "the end of the TCP connection", func() bool { return h.server.open.Load() == 0 })
}

func TestLink_answeredKeepalivesKeepIt(t *testing.T) {
	h := startHost(t, &sshServer{}, func(h *testHost) {
		h.dialer.limits.keepaliveEvery, h.dialer.limits.keepaliveMisses = 20*time.Millisecond, 3
	})
	l := h.mustDial(t)
	select {
	case <-l.Done():
		t.Errorf("the link ended for %v, though the host answers", l.endReason())
	case <-time.After(300 * time.Millisecond):
	}
}

// TestLink_unacknowledgedCloseCutsTCP: until the far end acknowledges it, the library's goroutines hang
// on a closed channel.
func TestLink_unacknowledgedCloseCutsTCP(t *testing.T) {
	h := startHost(t, &sshServer{forward: forwardTo(newRPCPeer())}, func(h *testHost) {
		h.dialer.limits.rpc, h.dialer.limits.closing = 50*time.Millisecond, 50*time.Millisecond
	})
	l := h.mustDial(t)
	c, err := l.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.server.freeze()
	_, err = c.ConnectGetHostname(t.Context())
	wantError(t, err, provider.ErrTransient, provider.ReasonTimeout)
	within(t, 2*time.Second, "the end of the link", func() { <-l.Done() })
}

// TestLink_reasonIsKnownWhenTCPEnds: whoever the end of TCP wakes asks for the reason at once.
func TestLink_reasonIsKnownWhenTCPEnds(t *testing.T) {
	l := &sshLink{done: make(chan struct{})}
	var seen error
	l.tcp = closeHook{hook: func() { seen = l.endReason() }}
	l.end(errNoKeepalive)
	if !errors.Is(seen, errNoKeepalive) {
		t.Errorf("the reason at the end of TCP is %v, want %v", seen, errNoKeepalive)
	}
}

type closeHook struct {
	net.Conn
	hook func()
}

func (c closeHook) Close() error { c.hook(); return nil }
