//go:build integration

package ctl_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Limits within which an error comes: a dial has 10 s, a refused one comes at once.
const (
	atOnce   = 8 * time.Second
	oneDial  = 18 * time.Second
	transfer = 30 * time.Second
)

func TestFault_oneClearSentence(t *testing.T) {
	l := theLab(t)
	img := l.tinyImage(t)
	cases := map[string]struct {
		reason string
		pool   func(t *testing.T) string
		change func(t *testing.T, c *provider.KVMConfig)
		args   []string
		code   int
		says   string // a part of the sentence, beside entry and host
		within time.Duration
	}{
		"WrongKey": {
			reason: "a key that the host does not know will not work until it is changed",
			change: func(t *testing.T, c *provider.KVMConfig) { c.SSHKeyFile = newKey(t) },
			code:   egressctl.CodePermanent, says: "key", within: atOnce,
		},
		"UnknownHostKey": {
			reason: "a host that known_hosts does not have is not trusted",
			change: func(t *testing.T, c *provider.KVMConfig) { c.KnownHostsFile = knownHosts(t) },
			code:   egressctl.CodePermanent, says: "known_hosts", within: atOnce,
		},
		"ChangedHostKey": {
			reason: "a host with another key than known_hosts has may be another machine",
			change: func(t *testing.T, c *provider.KVMConfig) {
				c.KnownHostsFile = knownHosts(t, c.Hosts[0].Address)
			},
			code: egressctl.CodePermanent, says: "key", within: atOnce,
		},
		"HostDown": {
			reason: "a host that does not answer may come back",
			change: func(_ *testing.T, c *provider.KVMConfig) { c.Hosts[0].Address = absent(c.Hosts[0].Address) },
			code:   egressctl.CodeTransient, says: "", within: oneDial,
		},
		"PortClosed": {
			reason: "a host where no sshd listens may come back",
			change: func(_ *testing.T, c *provider.KVMConfig) { c.Hosts[0].Port = 9 },
			code:   egressctl.CodeTransient, says: "refused", within: atOnce,
		},
		"PoolMissing": {
			reason: "a pool that does not exist has to be made",
			change: func(_ *testing.T, c *provider.KVMConfig) { c.Hosts[0].Pool = "no-such-pool" },
			code:   egressctl.CodePermanent, says: "no-such-pool", within: atOnce,
		},
		"ImageMissing": {
			reason: "an image that its server does not have will not come by itself",
			change: setURL(l["LAB_IMAGE_BASE"] + "/fault/status/404"),
			code:   egressctl.CodePermanent, says: "404", within: atOnce,
		},
		"WrongChecksum": {
			reason: "an image that is not the one asked for is not used",
			change: setURL(l.url(img, "fault/corrupt/")),
			code:   egressctl.CodePermanent, says: "sha256", within: transfer,
		},
		"FullPool": {
			reason: "a pool without room may have some later",
			pool:   func(t *testing.T) string { return l.pool(t, 64) },
			code:   egressctl.CodeQuota, says: "needed", within: atOnce,
		},
		"UnknownZone": {
			reason: "a zone that the entry does not have is a wrong word, and the right ones are named",
			args:   []string{"--zone", "nowhere"},
			code:   egressctl.CodeUsage, says: `no zone "nowhere"`, within: atOnce,
		},
	}
	shared := l.pool(t, 0)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pool := shared
			if tc.pool != nil {
				pool = tc.pool(t)
			}
			u := l.newUser(t, pool, img, func(c *provider.KVMConfig) {
				if tc.change != nil {
					tc.change(t, c)
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
			defer cancel()
			e := u.run(ctx, t, append(create("faulty-1"), append(tc.args, "-q")...)...)
			t.Logf("%d after %.1f s: %s", e.code, e.took.Seconds(), e.stderr)
			checkSentence(t, e, tc.reason, tc.says)
			if e.code != tc.code {
				t.Errorf("exit code %d, want %d: %s", e.code, tc.code, tc.reason)
			}
			if e.took > tc.within {
				t.Errorf("it took %v, want at most %v", e.took, tc.within)
			}
			if left := l.domains(t, pool); len(left) > 0 {
				t.Errorf("domains %v are left behind", left)
			}
		})
	}
	if left := l.volumes(t, shared); len(left) > 0 {
		t.Errorf("volumes %v are left behind by creates that could not work", left)
	}
}

// checkSentence wants one line on standard error that names entry and host, and nothing on standard
// output.
func checkSentence(t *testing.T, e ended, reason, says string) {
	t.Helper()
	sentence := strings.TrimSuffix(e.stderr, "\n")
	switch {
	case strings.Contains(sentence, "\n"):
		t.Errorf("more than one line:\n%s", e.stderr)
	case !strings.HasPrefix(sentence, "egressctl: "):
		t.Errorf("%q does not say who speaks", sentence)
	}
	for _, part := range []string{"kvm2-lab", host, says} {
		if !strings.Contains(sentence, part) {
			t.Errorf("%q does not say %q: %s", sentence, part, reason)
		}
	}
	if e.stdout != "" {
		t.Errorf("standard output has %q: it is for results", e.stdout)
	}
}

func setURL(url string) func(*testing.T, *provider.KVMConfig) {
	return func(_ *testing.T, c *provider.KVMConfig) {
		img := c.Images["tiny"]
		img.URL = url
		c.Images["tiny"] = img
	}
}

// absent gives an address of the lab's LAN that nobody has.
func absent(address string) string {
	return address[:strings.LastIndexByte(address, '.')] + ".99"
}

// newKey writes a private key that no host knows.
func newKey(t *testing.T) string {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "key", pem.EncodeToMemory(block))
}

// knownHosts writes a known_hosts file with a key for each host that is not the host's.
func knownHosts(t *testing.T, hosts ...string) string {
	t.Helper()
	var lines []string
	for _, h := range append(hosts, "beelink.example.net") {
		public, _, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		key, err := ssh.NewPublicKey(public)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, h+" "+string(ssh.MarshalAuthorizedKey(key)))
	}
	return write(t, "known_hosts", []byte(strings.Join(lines, "")))
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
