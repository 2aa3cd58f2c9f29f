//go:build integration

package cloudinit_test

import (
	"net/http"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/cloudinit"
)

const publicAddr6 = "2606:2800:220::34"

// openToClient is a proxy whose clients need no password.
var openToClient = cloudinit.Spec{Hostname: "p1", AllowedSources: cidrs(clientAddr + "/32")}

// closedHosts are hosts of URLs that must not be reached by default, under every spelling.
var closedHosts = []string{
	"127.0.0.1", "127.9.9.9", "127.1", "2130706433", "0x7f.1", "0x7f000001", "0177.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
	"[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "localhost", "loopback.test", "loopback6.test", "mapped.test",
	"0.0.0.0", "0", "[::]", "zero.test",
	"169.254.169.254", "[::ffff:169.254.169.254]", "[fe80::1]", "metadata.test", "[64:ff9b::a9fe:a9fe]",
	"10.1.2.3", "10.66051", "0xa.1.2.3", "172.16.0.1", "172.31.255.254", "192.168.0.1", "private.test", "PRIVATE.test.", "private6.test",
	"[::ffff:10.1.2.3]", "[::10.1.2.3]", "[64:ff9b::10.1.2.3]", "[2002:a01:203::1]", "[2001:0:a01:203::1]", "[64:ff9b:1::a01:203]", "[::ffff:0:10.1.2.3]",
	clientAddr, strangerAddr, "100.64.0.1", "100.127.255.254", "198.18.0.1", "198.19.255.254", "192.0.0.1", "192.0.2.1", "198.51.100.1", "203.0.113.1", "192.88.99.1",
	"224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
	"[fc00::1]", "[fd12:3456::1]", "[fec0::1]", "[ff02::1]", "[ff0e::1]", "[2001:db8::1]", "[2001:2::1]", "[3fff::1]", "[100::1]", "[4000::1]", "[5f00::1]",
	// One forbidden record is enough, wherever it stands.
	"public-then-private.test", "private-then-public.test", "public4-private6.test", "private4-public6.test", "public-then-loopback.test",
}

// ownHosts are the proxy's own addresses, and its neighbours' public ones.
var ownHosts = []string{proxyAddr, "[" + proxyAddr6 + "]", ownPublicAddr, "own.test", "own6.test", "p1", "[" + neighbour6 + "]", "neighbour6.test"}

// ownPublicAddr is one of squid's machine that the tests add while it runs.
const ownPublicAddr = "185.1.1.1"

var destinationNames = map[string]answer{
	"public.test": always(publicAddr), "public6.test": always(publicAddr6), "public46.test": always(publicAddr, publicAddr6),
	"localhost": always("127.0.0.1", "::1"), "loopback.test": always("127.0.0.1"), "loopback6.test": always("::1"),
	"mapped.test": always("::ffff:127.0.0.1"), "zero.test": always("0.0.0.0"),
	"metadata.test": always("169.254.169.254"), "private.test": always("10.1.2.3"), "private6.test": always("fd00::1"),
	"public-then-private.test": always(publicAddr, "10.1.2.3"), "private-then-public.test": always("10.1.2.3", publicAddr),
	"public4-private6.test": always(publicAddr, "fd00::1"), "private4-public6.test": always("10.1.2.3", publicAddr6),
	"public-then-loopback.test": always(publicAddr, "127.0.0.1"),
	"own.test":                  always(proxyAddr), "own6.test": always(proxyAddr6), "p1": always(proxyAddr), "neighbour6.test": always(neighbour6),
	"opened-and-closed.test": always("10.1.2.3", "10.2.2.3"), "opened.test": always("10.1.2.3"), "guarded-ip.test": always("10.1.9.9"),
	"hypervisor.test": always("10.1.8.8", "fd00:1::8"), "alias-of-hypervisor.test": always("10.1.8.8"),
}

// reached asks for http://host/ and a tunnel to host:443, and gives the addresses that were connected to.
func reached(t *testing.T, p proxy, o *origins, host string) []netip.Addr {
	t.Helper()
	o.take()
	for _, r := range []reply{p.get(t, nobody, "http://"+host+"/"), p.connect(t, nobody, host+":443")} {
		if r.Status == http.StatusProxyAuthRequired {
			t.Errorf("%s: got 407, want an answer about the destination", host)
		}
	}
	var out []netip.Addr
	for _, v := range o.take() {
		out = append(out, v.At.Addr())
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// anyRefusal stands for every status from 400: where the guard refuses, squid says that it cannot connect.
const anyRefusal = 0

// wantRefused asks for each host in plain HTTP and by tunnel, and wants the status and no connection.
func wantRefused(t *testing.T, p proxy, o *origins, hosts []string, status int) {
	t.Helper()
	for _, host := range hosts {
		o.take()
		for _, got := range []reply{p.get(t, nobody, "http://"+host+"/"), p.connect(t, nobody, host+":443")} {
			if got.Status != status && (status != anyRefusal || got.Status < 400) {
				t.Errorf("%s: got status %d (%s), want %d: a closed destination", host, got.Status, got.Header.Get("X-Squid-Error"), status)
			}
		}
		if visits := o.take(); len(visits) > 0 {
			t.Errorf("%s: %v was connected to, want no connection", host, visits[0].At)
		}
	}
}

func TestSquid_closedDestinations(t *testing.T) {
	o := startOrigins(t)
	startDNS(t, destinationNames)
	p := startProxy(t, openToClient)
	wantRefused(t, p, o, closedHosts, http.StatusForbidden)
}

func TestSquid_ownAddressesAndNeighbours(t *testing.T) {
	o := startOrigins(t)
	startDNS(t, destinationNames)
	p := startProxy(t, openToClient)
	// An address that squid's machine gets while squid runs.
	run(t, "ip", "address", "add", ownPublicAddr+"/32", "dev", "lan")
	t.Cleanup(func() { exec.Command("ip", "address", "delete", ownPublicAddr+"/32", "dev", "lan").Run() })
	wantRefused(t, p, o, ownHosts, anyRefusal)
}

func TestSquid_publicDestinations(t *testing.T) {
	o := startOrigins(t)
	startDNS(t, destinationNames)
	p := startProxy(t, openToClient)
	for host, want := range map[string]string{
		publicAddr:              publicAddr,
		"public.test":           publicAddr,
		"PUBLIC.test.":          publicAddr,
		"public6.test":          publicAddr6,
		"[" + publicAddr6 + "]": publicAddr6,
		"[64:ff9b::8.8.8.8]":    "64:ff9b::808:808", // a public address behind NAT64
	} {
		if diff := cmp.Diff([]string{want}, texts(reached(t, p, o, host))); diff != "" {
			t.Errorf("%s: reached -want, +got:\n%s", host, diff)
		}
	}
}

// TestSquid_eachLockAlone takes one of the two locks away.
func TestSquid_eachLockAlone(t *testing.T) {
	t.Run("SquidOnly", func(t *testing.T) {
		o := startOrigins(t)
		startDNS(t, destinationNames)
		p := startProxy(t, openToClient)
		run(t, "nft", "delete", "table", "inet", "egress")
		wantRefused(t, p, o, closedHosts, http.StatusForbidden)
	})
	t.Run("GuardOnly", func(t *testing.T) {
		o := startOrigins(t)
		startDNS(t, destinationNames)
		installUserData(t, openToClient)
		edit(t, "/etc/squid/egress/squid.conf", "http_access deny closed\n", "")
		p := startInstalled(t, openToClient)
		// Without squid's own rule, a name with a public record as well may be reached there, and only there.
		mixed := func(host string) bool { return strings.Contains(host, "public") }
		wantRefused(t, p, o, slices.DeleteFunc(slices.Clone(closedHosts), mixed), anyRefusal)
		wantRefused(t, p, o, slices.DeleteFunc(slices.Clone(ownHosts), func(h string) bool { return h == ownPublicAddr }), anyRefusal)
		for _, host := range slices.DeleteFunc(slices.Clone(closedHosts), func(h string) bool { return !mixed(h) }) {
			for _, addr := range texts(reached(t, p, o, host)) {
				if addr != publicAddr && addr != publicAddr6 {
					t.Errorf("%s: reached %s, want a public address or none", host, addr)
				}
			}
		}
	})
}

func TestSquid_allowedPrivateDestinations(t *testing.T) {
	o := startOrigins(t)
	startDNS(t, destinationNames)
	spec := openToClient
	spec.AllowedPrivateDestinations = cidrs("10.1.0.0/16", "192.168.77.0/24", "fd00:1::/64", "2a00:77::/64")
	spec.GuardedDestinations = []string{"10.1.9.9", "10.1.7.0/24", "hypervisor.test", "gone.test"}
	p := startProxy(t, spec)
	for host, want := range map[string]string{
		"10.1.2.3":             "10.1.2.3",
		"opened.test":          "10.1.2.3",
		clientAddr:             clientAddr,
		"[fd00:1::5]":          "fd00:1::5",
		"[" + neighbour6 + "]": neighbour6,
		"public.test":          publicAddr,
	} {
		if diff := cmp.Diff([]string{want}, texts(reached(t, p, o, host))); diff != "" {
			t.Errorf("%s: reached -want, +got:\n%s", host, diff)
		}
	}
	wantRefused(t, p, o, []string{"10.2.2.3", "opened-and-closed.test", "127.0.0.1", "169.254.169.254", "[fd00:2::1]", "[::ffff:10.2.2.3]"}, 403)
	wantRefused(t, p, o, []string{proxyAddr, "[" + proxyAddr6 + "]"}, anyRefusal)
	// The guarded ones: by address, by range, by name, and by the address behind the name.
	wantRefused(t, p, o, []string{"10.1.9.9", "guarded-ip.test", "10.1.7.1", "[64:ff9b::10.1.9.9]", "hypervisor.test", "gone.test"}, 403)
	wantRefused(t, p, o, []string{"10.1.8.8", "alias-of-hypervisor.test", "[fd00:1::8]"}, anyRefusal)
}

func TestSquid_allowedDestinations(t *testing.T) {
	o := startOrigins(t)
	d := startDNS(t, map[string]answer{
		"example.com": always(publicAddr), "www.example.com": always(publicAddr), "evil-example.com": always(publicAddr), "evil.test": always(publicAddr),
		"example.com.evil.test": always(publicAddr), "private.example.com": always("10.1.2.3"), "com": always(publicAddr),
	})
	spec := openToClient
	spec.AllowedDestinations = []string{"Example.com", "sub.example.com"}
	p := startProxy(t, spec)
	for target, want := range map[string]int{
		"http://example.com/":                   200,
		"http://EXAMPLE.COM./":                  200,
		"http://www.example.com/":               200,
		"http://evil-example.com/":              403,
		"http://example.com.evil.test/":         403,
		"http://com/":                           403,
		"http://example.com@evil.test/":         403,
		"http://evil.test/?http://example.com/": 403,
		"http://" + publicAddr + "/":            403,
		"http://[" + publicAddr6 + "]/":         403,
		"http://private.example.com/":           403,
	} {
		if got := p.get(t, nobody, target); got.Status != want {
			t.Errorf("GET %s: got %d, want %d", target, got.Status, want)
		}
	}
	for target, want := range map[string]int{
		"www.example.com:443":  200,
		"evil-example.com:443": 403,
		publicAddr + ":443":    403,
	} {
		if got := p.connect(t, nobody, target); got.Status != want {
			t.Errorf("CONNECT %s: got %d, want %d", target, got.Status, want)
		}
	}
	if got := p.ask(t, nobody, "GET", "http://evil.test/", "Host: example.com", "Connection: close"); got.Status == 200 {
		t.Error("a Host header of an allowed name let a request for another name through")
	}
	for _, v := range o.requests() {
		if host, _, _ := strings.Cut(strings.TrimPrefix(v.URI, "http://"), "/"); strings.Contains(host, "evil") {
			t.Errorf("the origin got %s", v.URI)
		}
	}
	for name := range d.asked {
		if strings.Contains(name, ".arpa") {
			t.Errorf("squid asked for %s: it must look up neither clients nor addresses that are asked for", name)
		}
	}
}

func TestSquid_ports(t *testing.T) {
	o := startOrigins(t)
	startDNS(t, destinationNames)
	p := startProxy(t, openToClient)
	for target, want := range map[string]int{
		"public.test:443": 200, "public.test:80": 200, "public.test:8080": 200,
		"public.test:25": 403, "public.test:53": 403, "public.test:22": 403, "public.test:3129": 403, "public.test:9999": 403, "public.test:0": 400,
	} {
		if got := p.connect(t, nobody, target); got.Status != want {
			t.Errorf("CONNECT %s: got %d, want %d", target, got.Status, want)
		}
	}
	for target, want := range map[string]int{
		"http://public.test/": 200, "http://public.test:8080/": 200,
		"http://public.test:25/": 403, "http://public.test:53/": 403, "http://public.test:443/": 403, "http://public.test:3129/": 403, "http://public.test:9999/": 403,
		"ftp://public.test/": 403, "https://public.test/": 403, "whois://public.test/x": 403,
	} {
		if got := p.get(t, nobody, target); got.Status != want {
			t.Errorf("GET %s: got %d, want %d", target, got.Status, want)
		}
	}
	allowed := []string{"80", "443", "8080"}
	for _, v := range o.take() {
		if _, port, _ := strings.Cut(v.At.String(), ":"); !slices.Contains(allowed, port) {
			t.Errorf("%s was connected to, want only ports %v", v.At, allowed)
		}
	}
}

func texts(addrs []netip.Addr) []string {
	out := make([]string, len(addrs))
	for i, a := range addrs {
		out[i] = a.String()
	}
	return out
}
