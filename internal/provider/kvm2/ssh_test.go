package kvm2

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"golang.org/x/crypto/ssh"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

func TestDial_forwardsUnixSocket(t *testing.T) {
	peer := newRPCPeer().on(procConnectGetLibVersion, func(r *rpcRequest) { r.reply(xdr(uint64(11_006_000))) })
	socket := filepath.Join(t.TempDir(), "libvirt-sock")
	peer.listen(t, socket)
	var asked string
	h := startHost(t, &sshServer{forward: func(path string) (net.Conn, error) {
		asked = path
		return (&net.Dialer{}).DialContext(t.Context(), "unix", path)
	}}, func(h *testHost) { h.host.Socket = socket })

	c, err := h.mustDial(t).Open(t.Context())
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	version, err := c.ConnectGetLibVersion(t.Context())
	if err != nil || version != 11_006_000 {
		t.Errorf("ConnectGetLibVersion = %d, %v; want what the peer behind the socket says, 11006000", version, err)
	}
	if asked != socket {
		t.Errorf("the server was asked for %q, want the configured socket %q", asked, socket)
	}
}

func TestDial_unknownHostKeyRejected(t *testing.T) {
	h := startHost(t, &sshServer{})
	h.knownHosts(t, "other.example.net "+strings.SplitN(h.line(ed25519Key().PublicKey()), " ", 2)[1])
	_, err := h.dial(t, t.Context())
	wantError(t, err, provider.ErrPermanent, provider.ReasonHostKeyUnknown,
		"beelink", ssh.FingerprintSHA256(ed25519Key().PublicKey()), fmt.Sprintf("[127.0.0.1]:%d", h.host.Port))
}

func TestDial_mismatchedHostKeyRejected(t *testing.T) {
	h := startHost(t, &sshServer{})
	h.knownHosts(t, "# ours\n"+h.line(ed25519Key2().PublicKey()))
	_, err := h.dial(t, t.Context())
	wantError(t, err, provider.ErrPermanent, provider.ReasonHostKeyMismatch,
		"beelink", ssh.FingerprintSHA256(ed25519Key().PublicKey()), h.dialer.knownHostsFile, "line 2")
}

func TestDial_insecureIgnoreHostKeyAccepts(t *testing.T) {
	h := startHost(t, &sshServer{}, func(h *testHost) {
		h.dialer.insecureIgnoreHostKey = true
		h.dialer.knownHostsFile = "/nonexistent/known_hosts"
	})
	h.mustDial(t)
}

func TestDial_missingKeyFileIsTransient(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "not-yet-mounted")
	tests := map[string]struct {
		reason string
		change func(*testHost)
	}{
		"Key":        {reason: "the Secret may still come", change: func(h *testHost) { h.dialer.keyFile = missing }},
		"KnownHosts": {reason: "the Secret may still come", change: func(h *testHost) { h.dialer.knownHostsFile = missing }},
		"Directory":  {reason: "a mount that is not there yet is an empty directory", change: func(h *testHost) { h.dialer.keyFile = t.TempDir() }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := startHost(t, &sshServer{}, tc.change)
			_, err := h.dial(t, t.Context())
			wantError(t, err, provider.ErrTransient, provider.ReasonCredentialsUnavailable, "Secret")
			if n := h.server.open.Load(); n != 0 {
				t.Errorf("%d connections were made, want none: there is nothing to log in with", n)
			}
		})
	}
}

// damagedKeys are the ways in which a good key comes to harm on its way into a Secret.
func damagedKeys(key clientKey) map[string]struct {
	reason, says string
	data         []byte
} {
	lines := strings.Split(strings.TrimSpace(string(key.pem)), "\n")
	type damaged = struct {
		reason, says string
		data         []byte
	}
	return map[string]damaged{
		"PublicKey":   {"the .pub file was pasted", "public key", ssh.MarshalAuthorizedKey(key.public)},
		"Base64Twice": {"a tool encoded what was encoded", "encoded twice", []byte(base64.StdEncoding.EncodeToString(key.pem))},
		"LiteralN":    {"an env var kept the escapes", `\n`, []byte(strings.Join(lines, `\n`))},
		"OneLine":     {"a template joined the lines", "joined into one", []byte(strings.Join(lines, " "))},
		"Indented":    {"a YAML block kept its indentation", "spaces before", []byte("  " + strings.Join(lines, "\n  ") + "\n")},
		"BOM":         {"an editor added it", "byte order mark", append([]byte("\xef\xbb\xbf"), key.pem...)},
		"UTF16":       {"saved as Unicode", "not text", []byte("-\x00-\x00-\x00-\x00")},
		"Empty":       {"the Secret has an empty value", "is empty", nil},
		"Blank":       {"the Secret has a blank value", "is empty", []byte(" \n\n")},
		"CutOff":      {"copied without its last line", "no END line", []byte(strings.Join(lines[:len(lines)-1], "\n"))},
		"NoBegin":     {"copied without its first line", "no BEGIN line", []byte(strings.Join(lines[1:], "\n"))},
		"BrokenBody": {"a character was lost", "damaged body",
			[]byte(strings.Replace(string(key.pem), lines[1], lines[1][1:]+"!", 1))},
		"Certificate": {"another PEM file", `"CERTIFICATE"`,
			pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: bytes.Repeat([]byte{7}, 100)})},
		"WrongContent": {"a PEM whose inside is no key", "content is damaged",
			pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: bytes.Repeat([]byte{7}, 100)})},
		"PuTTY":     {"made on Windows", "PuTTY", []byte("PuTTY-User-Key-File-3: ssh-ed25519\n")},
		"Encrypted": {"made with a passphrase", "passphrase", encryptedKey()},
	}
}

var encryptedKey = sync.OnceValue(func() []byte {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	block, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte("secret"))
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(block)
})

func TestDial_unparsableKeyIsPermanent(t *testing.T) {
	for name, tc := range damagedKeys(testClientKey()) {
		t.Run(name, func(t *testing.T) {
			h := startHost(t, &sshServer{})
			h.dialer.keyFile = writeFile(t, "id", tc.data)
			_, err := h.dial(t, t.Context())
			wantError(t, err, provider.ErrPermanent, provider.ReasonCredentialsInvalid, tc.says, h.dialer.keyFile)
			if n := h.server.open.Load(); n != 0 {
				t.Errorf("%d connections were made, want none: the key cannot work (%s)", n, tc.reason)
			}
		})
	}
}

func TestDial_harmlessKeyChangesWork(t *testing.T) {
	key := testClientKey().pem
	tests := map[string]struct {
		reason string
		data   []byte
	}{
		"NoFinalNewline": {"a Secret made by hand often lacks it", bytes.TrimSpace(key)},
		"CRLF":           {"a file that passed through Windows", bytes.ReplaceAll(key, []byte("\n"), []byte("\r\n"))},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := startHost(t, &sshServer{})
			h.dialer.keyFile = writeFile(t, "id", tc.data)
			if _, err := h.dial(t, t.Context()); err != nil {
				t.Errorf("%s: dial: %v", tc.reason, err)
			}
		})
	}
}

func TestDial_handshakeTimeout(t *testing.T) {
	for _, stage := range []sshStage{stopAfterAccept, stopAfterBanner, stopAfterKex} {
		t.Run(string(stage), func(t *testing.T) {
			h := startHost(t, &sshServer{stop: stage}, func(h *testHost) { h.dialer.limits.handshake = 150 * time.Millisecond })
			var err error
			within(t, 2*time.Second, "a dial with a limit of 150ms", func() { _, err = h.dial(t, t.Context()) })
			wantError(t, err, provider.ErrTransient, provider.ReasonTimeout, "150ms", "beelink")
			if stage != stopAfterKex { // there the server itself waits, for the test's end
				eventually(t, "the end of the TCP connection", func() bool { return h.server.open.Load() == 0 })
			}
		})
	}
}

func TestDial_cancelReturnsPromptly(t *testing.T) {
	h := startHost(t, &sshServer{stop: stopAfterBanner})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	var err error
	within(t, time.Second, "a cancelled dial", func() { _, err = h.dial(t, ctx) })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want the ctx's own", err)
	}
}

func TestDial_refusedIsTransient(t *testing.T) {
	h := startHost(t, &sshServer{})
	h.server.listener.Close()
	_, err := h.dial(t, t.Context())
	wantError(t, err, provider.ErrTransient, provider.ReasonUnreachable, "beelink", "refused")
}

func TestDial_closedDuringHandshakeIsTransient(t *testing.T) {
	h := startHost(t, &sshServer{stop: closeAfterAccept})
	_, err := h.dial(t, t.Context())
	wantError(t, err, provider.ErrTransient, provider.ReasonUnreachable, "MaxStartups")
}

func TestDial_refusedKeyIsPermanent(t *testing.T) {
	h := startHost(t, &sshServer{authorized: ed25519Key2().PublicKey()})
	_, err := h.dial(t, t.Context())
	wantError(t, err, provider.ErrPermanent, provider.ReasonAuthFailed, "proxy@127.0.0.1", "authorized_keys")
}

func TestDial_readsCredentialsEachTime(t *testing.T) {
	h := startHost(t, &sshServer{})
	good, err := os.ReadFile(h.dialer.knownHostsFile)
	if err != nil {
		t.Fatal(err)
	}
	rewrite := func(key, known []byte) {
		for path, data := range map[string][]byte{h.dialer.keyFile: key, h.dialer.knownHostsFile: known} {
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	rewrite(newClientKey().pem, good)
	_, err = h.dial(t, t.Context())
	wantError(t, err, provider.ErrPermanent, provider.ReasonAuthFailed)
	rewrite(testClientKey().pem, []byte(h.line(ed25519Key2().PublicKey())))
	_, err = h.dial(t, t.Context())
	wantError(t, err, provider.ErrPermanent, provider.ReasonHostKeyMismatch)
	rewrite(testClientKey().pem, good)
	h.mustDial(t)
}

func TestDial_badAddressIsPermanent(t *testing.T) {
	h := startHost(t, &sshServer{}, func(h *testHost) { h.host.Address = "ssh://beelink.example.net" })
	_, err := h.dial(t, t.Context())
	wantError(t, err, provider.ErrPermanent, reasonAddressInvalid, "ssh://")
}

// TestDial_twentySilentHostsLeakNothing: TestMain counts the goroutines.
func TestDial_twentySilentHostsLeakNothing(t *testing.T) {
	h := startHost(t, &sshServer{stop: stopAfterBanner}, func(h *testHost) { h.dialer.limits.handshake = 20 * time.Millisecond })
	before := openFiles(t)
	for range 20 {
		if _, err := h.dial(t, t.Context()); err == nil {
			t.Fatal("a silent host let us in")
		}
	}
	eventually(t, "the end of all TCP connections", func() bool { return h.server.open.Load() == 0 })
	if after := openFiles(t); after > before {
		t.Errorf("%d open files before twenty attempts, %d after", before, after)
	}
}

// openFiles counts this process's descriptors.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatalf("count open files: %v", err)
	}
	return len(entries)
}

func TestSSH_keyMaterialNeverInErrorsOrLogs(t *testing.T) {
	key := newClientKey()
	secrets := strings.Fields(string(key.pem))
	secrets = append(secrets, base64.StdEncoding.EncodeToString(key.pem)[:40])
	var logged strings.Builder
	log := funcr.New(func(prefix, args string) { logged.WriteString(prefix + args + "\n") }, funcr.Options{Verbosity: 10})
	check := func(t *testing.T, err error) {
		t.Helper()
		for _, secret := range secrets {
			if len(secret) < 12 { // BEGIN, PRIVATE and the like
				continue
			}
			for what, text := range map[string]string{"error": fmt.Sprintf("%v %+v %#v", err, err, err), "log": logged.String()} {
				if strings.Contains(text, secret) {
					t.Errorf("the %s has a part of the key: %s", what, text)
				}
			}
		}
	}
	for name, tc := range damagedKeys(key) {
		t.Run(name, func(t *testing.T) {
			h := startHost(t, &sshServer{})
			h.dialer.keyFile = writeFile(t, "id", tc.data)
			_, err := h.dial(t, logr.NewContext(t.Context(), log))
			check(t, err)
		})
	}
	t.Run("Refused", func(t *testing.T) {
		h := startHost(t, &sshServer{})
		h.dialer.keyFile = writeFile(t, "id", key.pem)
		_, err := h.dial(t, logr.NewContext(t.Context(), log))
		if err == nil {
			t.Fatal("a key that is not authorized was let in")
		}
		check(t, err)
	})
	if !strings.Contains(logged.String(), "kvm2.dial") {
		t.Fatal("nothing was logged, so nothing was tried")
	}
}
