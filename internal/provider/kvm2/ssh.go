package kvm2

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	"golang.org/x/crypto/ssh"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/tracing"
)

// sshDialer is the production dialer.
type sshDialer struct {
	keyFile, knownHostsFile string
	insecureIgnoreHostKey   bool
	log                     logr.Logger
	limits                  limits
}

var _ dialer = (*sshDialer)(nil)

// newSSHDialer makes the dialer of an entry. It reads no file. The logger serves calls whose ctx
// carries none.
func newSSHDialer(cfg *provider.KVMConfig, log logr.Logger) *sshDialer {
	return &sshDialer{
		keyFile:               cfg.SSHKeyFile,
		knownHostsFile:        cfg.KnownHostsFile,
		insecureIgnoreHostKey: cfg.InsecureIgnoreHostKey,
		log:                   log,
		limits:                defaultLimits(),
	}
}

// Dial logs in to host's sshd within limits.handshake, and returns within a moment of ctx's end. Key
// and known_hosts are read each time. Errors are a *provider.Error, or wrap ctx's.
func (d *sshDialer) Dial(ctx context.Context, host provider.KVMHost) (link, error) {
	ctx, span := tracing.Start(ctx, "kvm2.dial", attribute.String(attrHost, host.Name))
	defer span.End()
	log := ctxLogger(ctx, d.log)
	start := time.Now()
	l, err := d.dial(ctx, host)
	spanOutcome(span, err)
	log.V(1).Info("kvm2.dial", "host", host.Name, "duration", time.Since(start), "outcome", outcome(err))
	if err != nil {
		return nil, err
	}
	log.V(2).Info("kvm2.dial", "host", host.Name, "address", l.address, "user", host.User, "socket", l.socket)
	return l, nil
}

func (d *sshDialer) dial(ctx context.Context, host provider.KVMHost) (*sshLink, error) {
	address, err := endpoint(host)
	if err != nil {
		return nil, err
	}
	socket, err := socketPath(host)
	if err != nil {
		return nil, err
	}
	attempt := &sshAttempt{host: host, address: address, limit: d.limits.handshake}
	config, err := d.clientConfig(attempt)
	if err != nil {
		return nil, err
	}
	tcp, client, err := attempt.connect(ctx, config)
	if err != nil {
		return nil, attempt.explain(ctx, err)
	}
	return newSSHLink(d, host, address, socket, tcp, client), nil
}

func (d *sshDialer) clientConfig(attempt *sshAttempt) (*ssh.ClientConfig, error) {
	key, err := readKey(d.keyFile)
	if err != nil {
		return nil, err
	}
	config := &ssh.ClientConfig{
		User: attempt.host.User,
		Auth: []ssh.AuthMethod{ssh.PublicKeys(key)},
	}
	verify := func(string, net.Addr, ssh.PublicKey) error { return nil } // insecureIgnoreHostKey asks for it
	if !d.insecureIgnoreHostKey {
		keys, err := loadHostKeys(d.knownHostsFile)
		if err != nil {
			return nil, err
		}
		config.HostKeyAlgorithms = keys.algorithms(attempt.address)
		verify = keys.check(attempt.host)
	}
	config.HostKeyCallback = func(address string, remote net.Addr, key ssh.PublicKey) error {
		err := verify(address, remote, key)
		attempt.hostKeyAccepted.Store(err == nil)
		return err
	}
	return config, nil
}

// sshAttempt is one login.
type sshAttempt struct {
	host    provider.KVMHost
	address string
	limit   time.Duration
	// How far it came.
	connected, hostKeyAccepted atomic.Bool
}

// connect opens TCP and logs in, all within the limit. ssh.ClientConfig.Timeout would cover the TCP
// connect only, so the deadline stands on the connection.
func (a *sshAttempt) connect(ctx context.Context, config *ssh.ClientConfig) (net.Conn, *ssh.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, a.limit)
	defer cancel()
	tcp, err := (&net.Dialer{}).DialContext(ctx, "tcp", a.address)
	if err != nil {
		return nil, nil, err
	}
	a.connected.Store(true)
	stop := context.AfterFunc(ctx, func() { _ = tcp.Close() }) // frees the handshake, which takes no ctx
	raw, channels, requests, err := ssh.NewClientConn(tcp, a.address, config)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = tcp.Close() // a failed handshake has closed it already
		return nil, nil, errors.Join(err, ctx.Err())
	}
	return tcp, ssh.NewClient(raw, channels, requests), nil
}

// explain gives a failed login its class, its reason and a sentence that helps. ctx is the caller's.
func (a *sshAttempt) explain(ctx context.Context, err error) error {
	where := fmt.Sprintf("host %s (%s)", a.host.Name, a.address)
	var typed *provider.Error
	var algorithms *ssh.AlgorithmNegotiationError
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("log in to %s: %w", where, ctx.Err())
	case errors.As(err, &typed):
		return typed
	case errors.Is(err, context.DeadlineExceeded):
		return provider.Errorf(provider.ErrTransient, provider.ReasonTimeout,
			"%s: no SSH login within %v, it stopped at the %s", where, a.limit, a.stage())
	case !a.connected.Load():
		return provider.Errorf(provider.ErrTransient, provider.ReasonUnreachable,
			"%s cannot be reached; check address, port and that sshd runs: %w", where, err)
	case errors.As(err, &algorithms):
		return provider.Errorf(provider.ErrPermanent, reasonSSHIncompatible,
			"%s: its sshd and this program share no algorithm: %s", where, clip(algorithms.Error()))
	case isAuthFailure(err):
		return provider.Errorf(provider.ErrPermanent, provider.ReasonAuthFailed,
			"host %s refused the key for %s@%s; add its public half to that user's authorized_keys",
			a.host.Name, a.host.User, a.address)
	}
	return provider.Errorf(provider.ErrTransient, provider.ReasonUnreachable,
		"%s ended the connection at the %s; sshd may be throttling logins (MaxStartups), or something else "+
			"listens there: %s", where, a.stage(), clip(err.Error()))
}

// reasonSSHIncompatible: the two ends share no algorithm.
const reasonSSHIncompatible = "SSHIncompatible"

func (a *sshAttempt) stage() string {
	switch {
	case a.hostKeyAccepted.Load():
		return "authentication"
	case a.connected.Load():
		return "SSH banner or key exchange"
	}
	return "TCP connect"
}

// isAuthFailure recognises a refused login by the library's text: it has no type for it.
func isAuthFailure(err error) bool {
	text := err.Error()
	return strings.Contains(text, "unable to authenticate") ||
		strings.Contains(text, "Too many authentication failures")
}
