package cloudinit_test

import (
	"net/netip"
	"strings"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/cloudinit"
)

// TestRender_refuses changes one thing in a good Spec, and wants that named.
func TestRender_refuses(t *testing.T) {
	check := func(url string) func(*cloudinit.Spec) { return func(s *cloudinit.Spec) { s.Probe.CheckURL = url } }
	for name, tc := range map[string]struct {
		reason string
		change func(*cloudinit.Spec)
		want   string
	}{
		"NoHostname":     {"squid would look for one, for minutes", func(s *cloudinit.Spec) { s.Hostname = "" }, "hostname"},
		"HostnameLong":   {"Linux takes 64 bytes", func(s *cloudinit.Spec) { s.Hostname = strings.Repeat("a", 60) + ".net" }, "hostname"},
		"HostnameUpper":  {"DNS names compare in lower case", func(s *cloudinit.Spec) { s.Hostname = "Proxy" }, "hostname"},
		"HostnameHyphen": {"a label ends with a letter or digit", func(s *cloudinit.Spec) { s.Hostname = "proxy-" }, "hostname"},
		"Port":           {"no such port", func(s *cloudinit.Spec) { s.Port = 65536 }, "port 65536"},
		"NegativePort":   {"no such port", func(s *cloudinit.Spec) { s.Port = -1 }, "port -1"},
		"OpenRelay":      {"anybody could use it", func(s *cloudinit.Spec) { s.User, s.PasswordHash, s.AllowedSources = "", "", nil }, "open relay"},
		"EveryIPv4":      {"anybody could use it", func(s *cloudinit.Spec) { s.User, s.PasswordHash = "", ""; s.AllowedSources = cidrs("0.0.0.0/0") }, "open relay"},
		"EveryIPv6": {"anybody could use it", func(s *cloudinit.Spec) {
			s.User, s.PasswordHash = "", ""
			s.AllowedSources = cidrs("192.0.2.0/24", "::/0")
		}, "open relay"},
		"EveryIPv4InParts": {"two halves are the whole", func(s *cloudinit.Spec) {
			s.User, s.PasswordHash = "", ""
			s.AllowedSources = cidrs("0.0.0.0/1", "128.0.0.0/2", "192.0.0.0/2")
		}, "open relay"},
		"InvalidSource":    {"a zero prefix is no network", func(s *cloudinit.Spec) { s.AllowedSources = []netip.Prefix{{}} }, "allowedSources[0]"},
		"MappedSource":     {"squid compares IPv4 addresses as IPv4", func(s *cloudinit.Spec) { s.AllowedSources = cidrs("::ffff:192.0.2.0/120") }, "write it as IPv4"},
		"HashMissing":      {"a name without a password", func(s *cloudinit.Spec) { s.PasswordHash = "" }, "auth: the password hash"},
		"UserMissing":      {"a password without a name", func(s *cloudinit.Spec) { s.User = "" }, "auth: user name"},
		"PlainPassword":    {"only hashes reach the VM", func(s *cloudinit.Spec) { s.PasswordHash = "secret" }, "auth: the password hash"},
		"HashTooDear":      {"one request would take the helper for hours", func(s *cloudinit.Spec) { s.PasswordHash = strings.Replace(hashA, "$10$", "$31$", 1) }, "cost 4 to 14"},
		"HashTail":         {"a second line would be a second user", func(s *cloudinit.Spec) { s.PasswordHash = hashA + "\nroot:x" }, "auth: the password hash"},
		"UserREQUIRED":     {"squid reads it as anyone with a password", func(s *cloudinit.Spec) { s.User = "REQUIRED" }, "auth: user name"},
		"UserOption":       {"squid reads it as an option", func(s *cloudinit.Spec) { s.User = "-i" }, "auth: user name"},
		"UserColon":        {"HTTP's separator", func(s *cloudinit.Spec) { s.User = "a:b" }, "auth: user name"},
		"UserSpace":        {"squid's separator", func(s *cloudinit.Spec) { s.User = "a b" }, "auth: user name"},
		"UserNewline":      {"it would end the line", func(s *cloudinit.Spec) { s.User = "a\nhttp_access allow all" }, "auth: user name"},
		"UserQuote":        {"squid reads a quoted word as a file's name", func(s *cloudinit.Spec) { s.User = `"/etc/shadow"` }, "auth: user name"},
		"DomainDot":        {"one way to write it", func(s *cloudinit.Spec) { s.AllowedDestinations = []string{".example.com"} }, "allowedDestinations[0]"},
		"DomainStar":       {"one way to write it", func(s *cloudinit.Spec) { s.AllowedDestinations = []string{"*.example.com"} }, "allowedDestinations[0]"},
		"DomainAddress":    {"an address is no name", func(s *cloudinit.Spec) { s.AllowedDestinations = []string{"example.com", "192.0.2.1"} }, "allowedDestinations[1]"},
		"DomainHexAddress": {"an address is no name", func(s *cloudinit.Spec) { s.AllowedDestinations = []string{"0x7f.1"} }, "allowedDestinations[0]"},
		"DomainPort":       {"ports are not part of it", func(s *cloudinit.Spec) { s.AllowedDestinations = []string{"example.com:443"} }, "allowedDestinations[0]"},
		"DomainUnicode":    {"DNS carries xn-- forms", func(s *cloudinit.Spec) { s.AllowedDestinations = []string{"žluť.cz"} }, "xn--"},
		"DomainEmpty":      {"an empty name covers everything", func(s *cloudinit.Spec) { s.AllowedDestinations = []string{""} }, "allowedDestinations[0]"},
		"DomainNewline":    {"it would end the line", func(s *cloudinit.Spec) { s.AllowedDestinations = []string{"example.com\nhttp_access allow all"} }, "allowedDestinations[0]"},
		"OpensLoopback":    {"never opened", func(s *cloudinit.Spec) { s.AllowedPrivateDestinations = cidrs("127.0.0.1/32") }, "never opened"},
		"OpensMetadata":    {"never opened", func(s *cloudinit.Spec) { s.AllowedPrivateDestinations = cidrs("169.254.169.254/32") }, "never opened"},
		"OpensLinkLocal6":  {"never opened", func(s *cloudinit.Spec) { s.AllowedPrivateDestinations = cidrs("fe80::/10") }, "never opened"},
		"GuardedNonsense":  {"neither address nor name", func(s *cloudinit.Spec) { s.GuardedDestinations = []string{"a b"} }, "guardedDestinations[0]"},
		"GuardedBadCIDR":   {"neither address nor name", func(s *cloudinit.Spec) { s.GuardedDestinations = []string{"10.0.0.0/33"} }, "guardedDestinations[0]"},
		"GuardedShell":     {"it reaches a script", func(s *cloudinit.Spec) { s.GuardedDestinations = []string{"$(reboot).example.net"} }, "guardedDestinations[0]"},
		"GuardedZone":      {"a zone means another thing in the guest", func(s *cloudinit.Spec) { s.GuardedDestinations = []string{"fe80::1%eth0"} }, "guardedDestinations[0]"},
		"ProbeIsClient":    {"the probe could do what clients can", func(s *cloudinit.Spec) { s.Probe.User = s.User }, "probe: its user name"},
		"ProbeHash":        {"only hashes reach the VM", func(s *cloudinit.Spec) { s.Probe.PasswordHash = "x" }, "probe: the password hash"},
		"CheckNone":        {"without a check there is no probe", check("none"), "checkURL"},
		"CheckScheme":      {"squid passes HTTP only", check("ftp://example.net/"), "checkURL"},
		"CheckUser":        {"it would be sent to the other end", check("http://u:sentinel@example.net/"), "checkURL"},
		"CheckFragment":    {"it is never sent", check("http://example.net/#x"), "checkURL"},
		"CheckHost":        {"no host", check("http:///ip"), "checkURL"},
		"CheckPort":        {"no such port", check("http://example.net:70000/"), "checkURL"},
		"CheckPercent":     {"squid decodes before it compares", check("http://example.net/%2e"), "checkURL"},
		"CheckSpace":       {"squid's separator", check("http://example.net/a b"), "checkURL"},
		"CheckRegexp":      {"not among the characters that are made literal", check("http://example.net/[a-z]"), "checkURL"},
		"CheckNewline":     {"it would end the line", check("http://example.net/\nhttp_access"), "checkURL"},
		"CheckClosed":      {"the check could never pass", check("http://10.9.9.9/ip"), "add it to allowedPrivateDestinations"},
		"CheckMapped":      {"the check could never pass", check("http://[::ffff:10.9.9.9]/ip"), "add it to allowedPrivateDestinations"},
		"CheckGuarded":     {"the check could never pass", check("http://10.1.0.1/ip"), "closed range"},
		"SSHKey":           {"no key", func(s *cloudinit.Spec) { s.SSHAuthorizedKeys = []string{"ssh-ed25519 nonsense"} }, "sshAuthorizedKeys[0]"},
		"SSHKeyLines":      {"one key a line", func(s *cloudinit.Spec) { s.SSHAuthorizedKeys = []string{sshKey + "\n" + sshKey} }, "sshAuthorizedKeys[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := whole()
			tc.change(&spec)
			_, err := cloudinit.Render(spec)
			if err == nil {
				t.Fatalf("accepted, want an error with %q (%s)", tc.want, tc.reason)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %q, want it to say %q (%s)", err, tc.want, tc.reason)
			}
			for _, secret := range []string{hashA, hashB, "sentinel", "secret"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("got %q, want no secret in it", err)
				}
			}
		})
	}
}

func TestRender_accepts(t *testing.T) {
	for name, change := range map[string]func(*cloudinit.Spec){
		"AnySourceWithAuth":     func(s *cloudinit.Spec) { s.AllowedSources = cidrs("0.0.0.0/0", "::/0") },
		"PrivilegedPort":        func(s *cloudinit.Spec) { s.Port = 80 },
		"OpensMoreThanPrivate":  func(s *cloudinit.Spec) { s.AllowedPrivateDestinations = cidrs("0.0.0.0/0", "::/0") },
		"OpensPublicNeighbours": func(s *cloudinit.Spec) { s.AllowedPrivateDestinations = cidrs("2a00:77::/64") },
		"CheckInOpenedRange":    func(s *cloudinit.Spec) { s.Probe.CheckURL = "http://10.1.2.3:8000" },
		"CheckIPv6":             func(s *cloudinit.Spec) { s.Probe.CheckURL = "https://[2606:2800::1]:8443/a/b_c~d;e=(f)" },
		"SingleLabels":          func(s *cloudinit.Spec) { s.AllowedDestinations = []string{"internal"} },
		"KeyWithOptions":        func(s *cloudinit.Spec) { s.SSHAuthorizedKeys = []string{`no-pty,from="192.0.2.0/24" ` + sshKey} },
		"HashOtherLetter":       func(s *cloudinit.Spec) { s.PasswordHash = strings.Replace(hashA, "$2a$", "$2y$", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			spec := whole()
			change(&spec)
			if _, err := cloudinit.Render(spec); err != nil {
				t.Errorf("refused: %v", err)
			}
		})
	}
}

func TestRender_saysEverythingAtOnce(t *testing.T) {
	_, err := cloudinit.Render(cloudinit.Spec{
		Port: 70000, User: "a b", AllowedDestinations: []string{"*"}, AllowedPrivateDestinations: cidrs("127.0.0.0/8"),
		GuardedDestinations: []string{"?"}, Probe: &cloudinit.Probe{CheckURL: "none"}, SSHAuthorizedKeys: []string{"x"},
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		"hostname", "port 70000", "auth: user name", "auth: the password hash", "allowedDestinations[0]", "allowedPrivateDestinations 127.0.0.0/8",
		"guardedDestinations[0]", "probe: user name", "probe: the password hash", "checkURL", "sshAuthorizedKeys[0]",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want %q in it too", err, want)
		}
	}
}

// FuzzRender_lines puts arbitrary text in every field: whatever is accepted adds no directive to
// squid.conf, no rule to the guard and no user to the password file.
func FuzzRender_lines(f *testing.F) {
	for _, seed := range []string{"example.com", "a\nhttp_access allow all", "10.0.0.1\n", "u:v", "$(x)", "#", "\\", "http://a/b?c", "\u2028x", "{{.}}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, change := range []func(*cloudinit.Spec){
			func(s *cloudinit.Spec) { s.Hostname = text },
			func(s *cloudinit.Spec) { s.User = text },
			func(s *cloudinit.Spec) { s.PasswordHash = text },
			func(s *cloudinit.Spec) { s.AllowedDestinations = []string{text} },
			func(s *cloudinit.Spec) { s.Probe.User = text },
			func(s *cloudinit.Spec) { s.Probe.CheckURL = text },
		} {
			good := whole()
			good.GuardedDestinations, good.AllowedDestinations = nil, []string{"example.com"}
			want := countLines(t, good)
			change(&good)
			got, err := cloudinit.Render(good)
			if err != nil {
				continue
			}
			// A check by https has one line less: no path.
			if lines := strings.Count(string([]byte(got)), "\n"); lines > want || lines < want-1 {
				t.Errorf("%q: the user-data has %d lines, want %d", text, lines, want)
			}
		}
	})
}

func countLines(t *testing.T, spec cloudinit.Spec) int {
	t.Helper()
	return strings.Count(string(render(t, spec)), "\n")
}
