package kvm2

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

func TestDial_hostKeyTypeOrder(t *testing.T) {
	all := []ssh.Signer{ecdsaKey(), rsaKey(), ed25519Key()}
	tests := map[string]struct {
		reason string
		pinned ssh.Signer
	}{
		"OnlyEd25519": {"the last in the client's own order", ed25519Key()},
		"OnlyRSA":     {"an ssh-rsa line allows rsa-sha2-512 and -256", rsaKey()},
		"OnlyECDSA":   {"", ecdsaKey()},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := startHost(t, &sshServer{hostKeys: all})
			h.knownHosts(t, h.line(tc.pinned.PublicKey()))
			if _, err := h.dial(t, t.Context()); err != nil {
				t.Errorf("a server with three keys, one of them pinned (%s): %v", tc.reason, err)
			}
		})
	}
	t.Run("TypeThatTheServerLacks", func(t *testing.T) {
		h := startHost(t, &sshServer{hostKeys: []ssh.Signer{ed25519Key()}})
		h.knownHosts(t, h.line(ecdsa521Key().PublicKey()))
		_, err := h.dial(t, t.Context())
		wantError(t, err, provider.ErrPermanent, provider.ReasonHostKeyMismatch,
			ssh.FingerprintSHA256(ed25519Key().PublicKey()), "ecdsa-sha2-nistp521")
	})
}

func TestDial_twoKeysOfOneType(t *testing.T) {
	h := startHost(t, &sshServer{hostKeys: []ssh.Signer{ed25519Key2()}})
	plain := h.line(ed25519Key().PublicKey()) + "\n" + h.line(ed25519Key2().PublicKey()) + "\n"
	hashed := h.line(ed25519Key().PublicKey()) + "\n" + hashedLine(h, ed25519Key2().PublicKey()) + "\n"
	for name, text := range map[string]string{"BothPlain": plain, "SecondHashed": hashed} {
		t.Run(name, func(t *testing.T) {
			h.knownHosts(t, text)
			if _, err := h.dial(t, t.Context()); err != nil {
				t.Errorf("the second of two ed25519 lines has the server's key: %v", err)
			}
		})
	}
}

func hashedLine(h *testHost, key ssh.PublicKey) string {
	return xknownhosts.HashHostname(fmt.Sprintf("[%s]:%d", h.host.Address, h.host.Port)) + " " +
		key.Type() + " " + base64.StdEncoding.EncodeToString(key.Marshal())
}

func TestDial_customPortEntries(t *testing.T) {
	h := startHost(t, &sshServer{})
	rest := strings.SplitN(h.line(ed25519Key().PublicKey()), " ", 2)[1]
	t.Run("HashOfHostAndPort", func(t *testing.T) {
		h.knownHosts(t, hashedLine(h, ed25519Key().PublicKey()))
		h.mustDial(t)
	})
	for name, entry := range map[string]string{
		"HashOfHostAlone": xknownhosts.HashHostname("127.0.0.1"),
		"PlainHostAlone":  "127.0.0.1",
	} {
		t.Run(name, func(t *testing.T) {
			h.knownHosts(t, entry+" "+rest)
			_, err := h.dial(t, t.Context())
			wantError(t, err, provider.ErrPermanent, provider.ReasonHostKeyUnknown,
				fmt.Sprintf("an entry for [127.0.0.1]:%d is needed", h.host.Port))
		})
	}
}

func TestDial_knownHostsFileForms(t *testing.T) {
	h := startHost(t, &sshServer{}, func(h *testHost) { h.host.Address = "LocalHost." })
	key := ed25519Key().PublicKey()
	rest := " " + key.Type() + " " + base64.StdEncoding.EncodeToString(key.Marshal())
	entry := fmt.Sprintf("[localhost]:%d", h.host.Port)
	for name, text := range map[string]string{
		"ConfigInMixedCaseWithDot": entry + rest,
		"FileInMixedCaseWithDot":   strings.Replace(entry, "localhost", "LOCALhost.", 1) + rest,
		"BOMFirst":                 "\xef\xbb\xbf" + entry + rest + "\n",
		"CRLFAndComments":          "# hosts\r\n\r\n" + entry + rest + " a comment\r\n",
		"NoFinalNewline":           "# hosts\n" + entry + rest,
		"Tabs":                     entry + strings.ReplaceAll(rest, " ", "\t"),
		"Several":                  "kvm1,kvm2," + entry + rest,
		"BadLineOfAnotherHost":     "kvm1 ssh-ed25519 AAAA\n" + entry + rest,
		"Wildcard":                 "local*" + rest,
	} {
		t.Run(name, func(t *testing.T) {
			h.knownHosts(t, text)
			if _, err := h.dial(t, t.Context()); err != nil {
				t.Errorf("dial: %v", err)
			}
		})
	}
}

func TestLoadHostKeys_refusesWhatTrustsNobody(t *testing.T) {
	key := ed25519Key().PublicKey()
	good := key.Type() + " " + base64.StdEncoding.EncodeToString(key.Marshal())
	broken := good[:len(good)-9] + good[len(good)-8:]
	tests := map[string]struct {
		reason string
		text   string
		says   string
	}{
		"Empty":            {"an empty file never means no checking", "", "has no entries"},
		"OnlyComments":     {"", "# none\n\n# yet\n", "has no entries"},
		"BrokenRevocation": {"a revocation with a typo must not be lost", "kvm1 " + good + "\n@revoked * " + broken, "line 2"},
		"BrokenAuthority":  {"", "@cert-authority *.lab " + broken, "line 1"},
		"UnknownMarker":    {"", "@trusted kvm1 " + good, "@trusted"},
		"TwoMarkers":       {"", "@cert-authority @revoked " + good, "line 1"},
		"BracketsNoPort":   {"the only line is not usable", "[2001:db8::10] " + good, "line 1"},
		"BrokenHash":       {"", "|1|abc " + good, "line 1"},
		"HashNotBase64":    {"", "|1|!!|?? " + good, "line 1"},
		"OnlyGarbage":      {"", "hello\n", "line 1"},
		"UTF16":            {"", "k\x00v\x00m\x00", "UTF-16"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := loadHostKeys(writeFile(t, "known_hosts", []byte(tc.text)))
			wantError(t, err, provider.ErrPermanent, provider.ReasonCredentialsInvalid, tc.says)
		})
	}
}

func TestDial_unreadableLineIsNamedWhenHostIsUnknown(t *testing.T) {
	h := startHost(t, &sshServer{})
	h.knownHosts(t, "kvm9 "+strings.SplitN(h.line(ed25519Key().PublicKey()), " ", 2)[1]+"\n127.0.0.1 ssh-ed25519 AAA\n")
	_, err := h.dial(t, t.Context())
	wantError(t, err, provider.ErrPermanent, provider.ReasonHostKeyUnknown, "unreadable there: line 2")
}

func TestDial_revokedHostKeyRejected(t *testing.T) {
	h := startHost(t, &sshServer{})
	line := h.line(ed25519Key().PublicKey())
	h.knownHosts(t, line+"\n@revoked * "+strings.SplitN(line, " ", 2)[1])
	_, err := h.dial(t, t.Context())
	wantError(t, err, provider.ErrPermanent, provider.ReasonHostKeyRevoked, "line 2",
		ssh.FingerprintSHA256(ed25519Key().PublicKey()))
}

// hostCertificate is a host key with a certificate of ed25519Key2, the authority of these tests.
func hostCertificate(t *testing.T, principal string, validBefore time.Time) ssh.Signer {
	t.Helper()
	cert := &ssh.Certificate{
		Key: ed25519Key().PublicKey(), CertType: ssh.HostCert, KeyId: "host",
		ValidPrincipals: []string{principal},
		ValidAfter:      uint64(time.Now().Add(-48 * time.Hour).Unix()),
		ValidBefore:     uint64(validBefore.Unix()),
	}
	if err := cert.SignCert(rand.Reader, ed25519Key2()); err != nil {
		t.Fatalf("sign the host certificate: %v", err)
	}
	signer, err := ssh.NewCertSigner(cert, ed25519Key())
	if err != nil {
		t.Fatalf("host certificate: %v", err)
	}
	return signer
}

func TestDial_certAuthority(t *testing.T) {
	tomorrow, yesterday := time.Now().Add(24*time.Hour), time.Now().Add(-24*time.Hour)
	authority := ed25519Key2().PublicKey()
	authorityKey := authority.Type() + " " + base64.StdEncoding.EncodeToString(authority.Marshal())
	tests := map[string]struct {
		reason   string
		hostKey  ssh.Signer
		wildcard bool
		revoked  bool
		want     string // the reason it is refused for, or none
		says     string
	}{
		"Valid":          {reason: "the authority signed it for this host", hostKey: hostCertificate(t, "127.0.0.1", tomorrow)},
		"Wildcard":       {reason: "a pattern without port covers every port", hostKey: hostCertificate(t, "127.0.0.1", tomorrow), wildcard: true},
		"Expired":        {hostKey: hostCertificate(t, "127.0.0.1", yesterday), want: reasonHostCertificateInvalid, says: "expired"},
		"WrongPrincipal": {hostKey: hostCertificate(t, "kvm2.lab", tomorrow), want: reasonHostCertificateInvalid, says: "principal"},
		"PlainKeyOnly":   {hostKey: ed25519Key(), want: provider.ReasonHostKeyMismatch, says: "trusts only certificates"},
		"AuthorityRevoked": {hostKey: hostCertificate(t, "127.0.0.1", tomorrow), revoked: true,
			want: provider.ReasonHostKeyRevoked, says: "revokes"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := startHost(t, &sshServer{hostKeys: []ssh.Signer{tc.hostKey}})
			pattern := fmt.Sprintf("[127.0.0.1]:%d", h.host.Port)
			if tc.wildcard {
				pattern = "127.0.*"
			}
			text := "@cert-authority " + pattern + " " + authorityKey + "\n"
			if tc.revoked {
				text += "@revoked * " + authorityKey + "\n"
			}
			h.knownHosts(t, text)
			_, err := h.dial(t, t.Context())
			if tc.want == "" {
				if err != nil {
					t.Errorf("%s: %v", tc.reason, err)
				}
				return
			}
			wantError(t, err, provider.ErrPermanent, tc.want, tc.says, ssh.FingerprintSHA256(ed25519Key().PublicKey()))
		})
	}
}

func TestNormalPattern_spellings(t *testing.T) {
	tests := map[string]struct{ reason, pattern, want string }{
		"Lower":       {"OpenSSH compares without case", "KVM1.Lab", "kvm1.lab"},
		"Dot":         {"a root dot names the same host", "kvm1.lab.", "kvm1.lab"},
		"Negated":     {"", "!KVM1", "!kvm1"},
		"IPv6":        {"one address, one spelling", "2001:0db8:0:0::10", "2001:db8::10"},
		"IPv6AndPort": {"", "[2001:0DB8::10]:2222", "[2001:db8::10]:2222"},
		"Wildcard":    {"", "*.LAB", "*.lab"},
		"HostAndPort": {"", "[KVM1]:2222", "[kvm1]:2222"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := normalPattern(tc.pattern)
			if err != nil || got != tc.want {
				t.Errorf("normalPattern(%q) = %q, %v; want %q (%s)", tc.pattern, got, err, tc.want, tc.reason)
			}
		})
	}
}

func TestHostKeys_neverOfferSHA1(t *testing.T) {
	path := writeFile(t, "known_hosts", []byte(xknownhosts.Line([]string{"kvm1"}, rsaKey().PublicKey())))
	keys, err := loadHostKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	offer := keys.algorithms("kvm1:22")
	if offer[0] != ssh.KeyAlgoRSASHA512 || offer[1] != ssh.KeyAlgoRSASHA256 {
		t.Errorf("first of the offer are %v, want rsa-sha2-512 and -256 for an ssh-rsa line", offer[:2])
	}
	if slices.Contains(offer, ssh.KeyAlgoRSA) {
		t.Errorf("the offer %v has ssh-rsa, which signs with SHA-1", offer)
	}
}
