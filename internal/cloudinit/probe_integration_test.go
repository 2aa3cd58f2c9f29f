//go:build integration

package cloudinit_test

import (
	"net"
	"net/netip"
	"strconv"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/cloudinit"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/probe"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// TestSquid_probe asks a real squid as the operator does: from an address that is not among the allowed
// sources, with the generated credential.
func TestSquid_probe(t *testing.T) {
	startOrigins(t)
	startDNS(t, map[string]answer{
		"check.test": always(publicAddr), "gone.test": always(), "private.test": always("10.1.2.3"),
	})
	user, password, err := cloudinit.GenerateCredential()
	if err != nil {
		t.Fatal(err)
	}
	spec := cloudinit.Spec{Hostname: "p1", AllowedSources: cidrs("198.51.100.0/24")}
	for name, tc := range map[string]struct {
		reason   string
		made     string // the check URL that the proxy was made for
		asked    string
		password string
		want     probe.Reason
		answered bool
	}{
		"Passes":        {"all is well", "http://check.test/ip", "http://check.test/ip", password, "", true},
		"Tunnel":        {"the proxy lets the tunnel through; the origin's certificate is its own matter", "https://check.test/", "https://check.test/", password, probe.ReasonCheckURLFailed, true},
		"WrongPassword": {"squid asks for another credential", "http://check.test/ip", "http://check.test/ip", "wrong", probe.ReasonProxyAuthRejected, false},
		"OtherURL":      {"squid marks its refusal", "http://check.test/ip", "http://check.test/other", password, probe.ReasonProxyDenied, false},
		"OtherTunnel":   {"squid refuses the tunnel", "https://check.test/", "https://other.test/", password, probe.ReasonProxyDenied, false},
		"NoSuchHost":    {"squid took the credential, and found no address", "http://gone.test/", "http://gone.test/", password, probe.ReasonCheckURLUnreachable, true},
		"NoSuchTunnel":  {"squid took the credential, and found no address", "https://gone.test/", "https://gone.test/", password, probe.ReasonCheckURLUnreachable, true},
		"ClosedHost":    {"a closed destination is closed for the probe too", "http://private.test/", "http://private.test/", password, probe.ReasonProxyDenied, false},
		"None":          {"with no check URL any answer will do", "http://check.test/", provider.CheckURLNone, password, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			spec.Probe = &cloudinit.Probe{User: user, PasswordHash: hash(t, password), CheckURL: tc.made}
			p := startProxy(t, spec)
			got, err := probe.Request(t.Context(), probe.Options{
				Endpoint: net.JoinHostPort(proxyAddr, strconv.Itoa(p.port)), User: user, Password: tc.password, CheckURL: tc.asked,
			})
			if reason := probe.ReasonOf(err); reason != tc.want || got.ProxyAnswered != tc.answered {
				t.Errorf("got reason %q, proxy answered %t (%v), want %q, %t: %s", reason, got.ProxyAnswered, err, tc.want, tc.answered, tc.reason)
			}
			if want := netip.MustParseAddr(proxyAddr); name == "Passes" && got.EgressIP != want {
				t.Errorf("the other end saw %s, want %s", got.EgressIP, want)
			}
		})
	}
}
