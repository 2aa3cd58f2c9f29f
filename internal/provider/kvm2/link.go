package kvm2

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"
	"github.com/go-logr/logr"
	"golang.org/x/crypto/ssh"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// sshLink is one SSH connection. Closing a forwarded channel does not end it, so it owns its TCP
// connection and ends with that.
type sshLink struct {
	host    provider.KVMHost
	address string
	socket  string
	log     logr.Logger
	limits  limits

	tcp    net.Conn
	client *ssh.Client
	done   chan struct{}
	once   sync.Once
	err    error // why it ended; read after done
}

var _ link = (*sshLink)(nil)

func newSSHLink(d *sshDialer, host provider.KVMHost, address, socket string, tcp net.Conn, client *ssh.Client) *sshLink {
	l := &sshLink{
		host: host, address: address, socket: socket, log: d.log, limits: d.limits,
		tcp: tcp, client: client, done: make(chan struct{}),
	}
	go func() { l.end(fmt.Errorf("the SSH connection was lost: %w", client.Wait())) }()
	go keepAlive(l.limits, l.done, l.ping, func() { l.end(errNoKeepalive) })
	return l
}

// ping asks sshd for a sign of life. It blocks until there is one, or the link ends.
func (l *sshLink) ping() error {
	_, _, err := l.client.SendRequest("keepalive@openssh.com", true, nil)
	return err
}

// Open makes a libvirt connection within limits.open. When that passes the link ends: a host that
// answers keepalives and opens no channel is of no use. On ctx's end Open returns, and what was
// being opened is closed when it comes.
func (l *sshLink) Open(ctx context.Context) (conn, error) {
	type result struct {
		conn *libvirtConn
		err  error
	}
	opened := make(chan result, 1)
	go func() {
		expired := errors.New("expired")
		watchdog := time.AfterFunc(l.limits.open, func() { l.end(expired) })
		c, err := l.open()
		watchdog.Stop()
		if err != nil && errors.Is(l.endReason(), expired) {
			err = provider.Errorf(provider.ErrTransient, provider.ReasonTimeout,
				"host %s: libvirt did not answer on %s within %v", l.host.Name, l.socket, l.limits.open)
		}
		opened <- result{c, err}
	}()
	select {
	case r := <-opened:
		if r.err != nil {
			return nil, r.err
		}
		return observe(r.conn, l.log, l.host.Name), nil
	case <-ctx.Done():
		go func() {
			if r := <-opened; r.err == nil {
				_ = r.conn.Close()
			}
		}()
		return nil, fmt.Errorf("open libvirt on host %s: %w", l.host.Name, ctx.Err())
	}
}

// open blocks until libvirt answers or the link ends.
func (l *sshLink) open() (*libvirtConn, error) {
	raw, err := l.client.Dial("unix", l.socket)
	if err != nil {
		return nil, l.explainOpen(err)
	}
	guard := newFrameGuard(raw)
	go l.reap(guard)
	rpc := libvirt.NewWithDialer(dialers.NewAlreadyConnected(guard))
	if err := connectRPC(rpc, guard); err != nil {
		_ = guard.Close() // never fails
		return nil, l.explainConnect(guard, err)
	}
	c := newLibvirtConn(rpc, guard, l.host.Name, l.limits)
	c.shell = l.run
	return c, nil
}

// connectRPC runs the library's Connect, and makes an error of a panic in it.
func connectRPC(rpc *libvirt.Libvirt, guard *frameGuard) (err error) {
	defer close(guard.connected)
	defer recoverTo(&err)
	return rpc.Connect()
}

// reap cuts the link when the far end does not acknowledge the close of a channel: until then the
// library's goroutines hang on it.
func (l *sshLink) reap(guard *frameGuard) {
	select {
	case <-guard.dead:
	case <-l.done:
		return
	}
	timer := time.NewTimer(l.limits.closing)
	defer timer.Stop()
	select {
	case <-guard.readerDone:
	case <-l.done:
	case <-timer.C:
		l.end(errors.New("the host did not acknowledge the close of a channel"))
	}
}

// Done is closed when the link is dead.
func (l *sshLink) Done() <-chan struct{} { return l.done }

// Close ends the link and every connection through it.
func (l *sshLink) Close() error {
	l.end(errClosed)
	return nil
}

func (l *sshLink) end(err error) {
	l.once.Do(func() {
		l.err = err
		close(l.done)     // first: whoever the end of TCP wakes may ask for the reason
		_ = l.tcp.Close() // ends the SSH client's goroutines and all channels
	})
}

func (l *sshLink) endReason() error {
	select {
	case <-l.done:
		return l.err
	default:
		return nil
	}
}
