package kvm2

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// sshStage is where a scripted sshd stops answering.
type sshStage string

const (
	stopNowhere     sshStage = ""
	stopAfterAccept sshStage = "after accept"
	stopAfterBanner sshStage = "after banner"
	stopAfterKex    sshStage = "after key exchange"
	// closeAfterAccept is what sshd does with logins that it throttles.
	closeAfterAccept sshStage = "close after accept"
)

// sshServer is an sshd in the test's process. Fields are set before start.
type sshServer struct {
	hostKeys []ssh.Signer
	// authorized is the one key that may log in.
	authorized ssh.PublicKey
	stop       sshStage
	// forward connects a forwarded unix socket. An *ssh.OpenChannelError refuses it with its reason.
	forward func(path string) (net.Conn, error)
	// exec answers a command with its exit status.
	exec func(command string) uint32
	// execOutput is what a command prints.
	execOutput string
	// ignoreKeepalives leaves global requests without an answer.
	ignoreKeepalives bool
	// maxStartups, if not 0, is how many logins may be under way at once; others are dropped.
	maxStartups int32

	addr     *net.TCPAddr
	listener net.Listener
	quit     chan struct{}
	tasks    sync.WaitGroup
	logins   atomic.Int32 // that succeeded
	open     atomic.Int32 // TCP connections now
	startups atomic.Int32 // logins under way

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	// frozen, while not nil, makes the host take nothing in, with TCP still open: a loss of power.
	frozen chan struct{}
}

// start listens on loopback until the test ends.
func (s *sshServer) start(t *testing.T) *sshServer {
	t.Helper()
	var cfg net.ListenConfig
	l, err := cfg.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	s.listener, s.addr = l, l.Addr().(*net.TCPAddr)
	s.quit, s.conns = make(chan struct{}), map[net.Conn]struct{}{}
	s.tasks.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.track(freezableConn{c, s})
		}
	})
	t.Cleanup(func() {
		close(s.quit)
		l.Close()
		s.drop()
		s.tasks.Wait()
	})
	return s
}

func (s *sshServer) track(c net.Conn) {
	s.mu.Lock()
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	s.open.Add(1)
	s.tasks.Go(func() {
		defer s.open.Add(-1)
		s.serve(c)
		c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	})
}

// freezableConn stands still once its server is frozen.
type freezableConn struct {
	net.Conn
	server *sshServer
}

func (c freezableConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.server.mu.Lock()
	frozen := c.server.frozen
	c.server.mu.Unlock()
	if frozen != nil {
		select {
		case <-frozen:
		case <-c.server.quit:
		}
	}
	return n, err
}

// freeze is the loss of power, thaw the host's return, which knows nothing of its old connections.
func (s *sshServer) freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = make(chan struct{})
}

func (s *sshServer) thaw() {
	s.drop()
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.frozen)
	s.frozen = nil
}

// drop cuts every connection there is.
func (s *sshServer) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
}

func (s *sshServer) serve(c net.Conn) {
	switch s.stop {
	case stopAfterAccept:
		_, _ = io.Copy(io.Discard, c)
		return
	case stopAfterBanner:
		_, _ = c.Write([]byte("SSH-2.0-test\r\n"))
		_, _ = io.Copy(io.Discard, c)
		return
	case closeAfterAccept:
		return
	case stopNowhere, stopAfterKex:
	}
	config := &ssh.ServerConfig{
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if s.stop == stopAfterKex {
				<-s.quit
			}
			if s.authorized == nil || !bytes.Equal(key.Marshal(), s.authorized.Marshal()) {
				return nil, errors.New("not this key")
			}
			return nil, nil
		},
	}
	for _, k := range s.hostKeys {
		config.AddHostKey(k)
	}
	now := s.startups.Add(1)
	if s.maxStartups > 0 && now > s.maxStartups {
		s.startups.Add(-1)
		return
	}
	// A login is over before the client learns that it succeeded: it may begin the next one at once.
	ended := sync.OnceFunc(func() { s.startups.Add(-1) })
	config.AuthLogCallback = func(_ ssh.ConnMetadata, _ string, err error) {
		if err == nil {
			ended()
		}
	}
	conn, channels, requests, err := ssh.NewServerConn(c, config)
	ended()
	if err != nil {
		return
	}
	s.logins.Add(1)
	s.tasks.Go(func() {
		for r := range requests {
			if !s.ignoreKeepalives {
				_ = r.Reply(false, nil)
			}
		}
	})
	for ch := range channels {
		s.tasks.Go(func() { s.serveChannel(ch) })
	}
	_ = conn.Wait()
}

func (s *sshServer) serveChannel(ch ssh.NewChannel) {
	switch ch.ChannelType() {
	case "direct-streamlocal@openssh.com":
		s.serveForward(ch)
	case "session":
		s.serveSession(ch)
	default:
		_ = ch.Reject(ssh.UnknownChannelType, "unknown")
	}
}

func (s *sshServer) serveForward(ch ssh.NewChannel) {
	var msg struct {
		Path      string
		Reserved0 string
		Reserved1 uint32
	}
	if err := ssh.Unmarshal(ch.ExtraData(), &msg); err != nil {
		_ = ch.Reject(ssh.ConnectionFailed, "bad request")
		return
	}
	target, err := s.forward(msg.Path)
	if err != nil {
		refused := &ssh.OpenChannelError{Reason: ssh.ConnectionFailed, Message: "open failed"}
		_ = errors.As(err, &refused)
		_ = ch.Reject(refused.Reason, refused.Message)
		return
	}
	channel, requests, err := ch.Accept()
	if err != nil {
		target.Close()
		return
	}
	s.tasks.Go(func() { ssh.DiscardRequests(requests) })
	s.tasks.Go(func() {
		_, _ = io.Copy(target, channel)
		target.Close()
	})
	_, _ = io.Copy(channel, target)
	channel.Close()
	target.Close()
}

func (s *sshServer) serveSession(ch ssh.NewChannel) {
	channel, requests, err := ch.Accept()
	if err != nil {
		return
	}
	defer channel.Close()
	for r := range requests {
		var cmd struct{ Command string }
		if r.Type != "exec" || s.exec == nil || ssh.Unmarshal(r.Payload, &cmd) != nil {
			_ = r.Reply(false, nil)
			continue
		}
		_ = r.Reply(true, nil)
		_, _ = io.WriteString(channel, s.execOutput)
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{s.exec(cmd.Command)}))
		return
	}
}

// Keys are made once: RSA ones are slow.
var (
	ed25519Key  = sync.OnceValue(newEd25519)
	ed25519Key2 = sync.OnceValue(newEd25519)
	ecdsaKey    = sync.OnceValue(func() ssh.Signer { return newECDSA(elliptic.P256()) })
	ecdsa521Key = sync.OnceValue(func() ssh.Signer { return newECDSA(elliptic.P521()) })
	rsaKey      = sync.OnceValue(newRSA)
)

func mustSigner(key any, err error) ssh.Signer {
	if err != nil {
		panic(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		panic(err)
	}
	return signer
}

func newEd25519() ssh.Signer {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return mustSigner(key, err)
}

func newECDSA(curve elliptic.Curve) ssh.Signer {
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	return mustSigner(key, err)
}

func newRSA() ssh.Signer {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	return mustSigner(key, err)
}

// clientKey is a user's key as a file's content, with its public half.
type clientKey struct {
	pem    []byte
	public ssh.PublicKey
}

var testClientKey = sync.OnceValue(newClientKey)

func newClientKey() clientKey {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "test")
	if err != nil {
		panic(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		panic(err)
	}
	return clientKey{pem: pem.EncodeToMemory(block), public: key}
}

// testHost is a server with everything that a dialer needs to reach it.
type testHost struct {
	server *sshServer
	dialer *sshDialer
	host   provider.KVMHost
}

// startHost starts a server with an ed25519 host key unless s has keys of its own, and a dialer
// whose files let it in. Options change the dialer or the host after that.
func startHost(t *testing.T, s *sshServer, change ...func(*testHost)) *testHost {
	t.Helper()
	if s.hostKeys == nil {
		s.hostKeys = []ssh.Signer{ed25519Key()}
	}
	if s.authorized == nil {
		s.authorized = testClientKey().public
	}
	s.start(t)
	h := &testHost{
		server: s,
		host:   provider.KVMHost{Name: "beelink", Address: "127.0.0.1", Port: s.addr.Port, User: "proxy"},
		dialer: newSSHDialer(&provider.KVMConfig{
			SSHKeyFile: writeFile(t, "id", testClientKey().pem),
		}, logr.Discard()),
	}
	h.dialer.knownHostsFile = writeFile(t, "known_hosts", []byte(h.line(s.hostKeys[0].PublicKey())+"\n"))
	for _, f := range change {
		f(h)
	}
	return h
}

// line is the known_hosts line of the host for a key.
func (h *testHost) line(key ssh.PublicKey) string {
	return knownhosts.Line([]string{net.JoinHostPort(h.host.Address, strconv.Itoa(h.host.Port))}, key)
}

// knownHosts replaces the known_hosts file.
func (h *testHost) knownHosts(t *testing.T, text string) {
	t.Helper()
	h.dialer.knownHostsFile = writeFile(t, "known_hosts", []byte(text))
}

// dial gives the link or the error; the link ends with the test.
func (h *testHost) dial(t *testing.T, ctx context.Context) (*sshLink, error) { //nolint:revive // t first, as in every test function here
	t.Helper()
	l, err := h.dialer.Dial(ctx, h.host)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.(*sshLink), nil
}

func (h *testHost) mustDial(t *testing.T) *sshLink {
	t.Helper()
	l, err := h.dial(t, t.Context())
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	return l
}

// forwardTo serves any socket path with a scripted libvirt.
func forwardTo(p *rpcPeer) func(string) (net.Conn, error) {
	return func(string) (net.Conn, error) { return p.connect(), nil }
}

func writeFile(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatalf("write %s: %v", name, err)
	}
	return path
}

// within fails the test when f takes longer than d. It returns how long it took.
func within(t *testing.T, d time.Duration, what string, f func()) time.Duration {
	t.Helper()
	start := time.Now()
	ended := make(chan struct{})
	go func() { defer close(ended); f() }()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		t.Fatalf("%s did not end within %v", what, d)
	}
	return time.Since(start)
}

// eventually polls until ok holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	for !ok() {
		select {
		case <-ticker.C:
		case <-deadline.C:
			t.Fatalf("%s did not happen within 10s", what)
		}
	}
}

// wantError checks an error's class and reason, and that its text has every part.
func wantError(t *testing.T, err error, class error, reason string, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %v/%s", class, reason)
	}
	if got := provider.ClassOf(err); !errors.Is(got, class) || provider.ReasonOf(err) != reason {
		t.Errorf("error is %v/%s, want %v/%s: %v", got, provider.ReasonOf(err), class, reason, err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q, which a user needs to mend it", err, part)
		}
	}
}
