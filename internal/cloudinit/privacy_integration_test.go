//go:build integration

package cloudinit_test

import (
	"net/http"
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/cloudinit"
)

// TestSquid_headersThatOriginsSee compares all that an origin gets.
func TestSquid_headersThatOriginsSee(t *testing.T) {
	o := startOrigins(t)
	startDNS(t, destinationNames)
	spec := cloudinit.Spec{Hostname: "p1", User: alice.User, PasswordHash: hash(t, alice.Password)}
	p := startProxy(t, spec)
	for name, tc := range map[string]struct {
		reason string
		send   []string
		want   http.Header
	}{
		"Nothing": {
			reason: "squid adds nothing that tells of a proxy, nor the credential that it was given",
			send:   []string{"User-Agent: test", "Connection: keep-alive"},
			want:   http.Header{"User-Agent": {"test"}, "Connection": {"keep-alive"}},
		},
		"ClientTellsOfProxies": {
			reason: "what other proxies added before is taken out",
			send: []string{
				"User-Agent: test", "Connection: keep-alive", "Via: 1.1 inner", "X-Forwarded-For: 192.168.1.7",
				"Forwarded: for=192.168.1.7", "Proxy-Connection: keep-alive",
			},
			want: http.Header{"User-Agent": {"test"}, "Connection": {"keep-alive"}},
		},
		"ClientsOwnCacheControl": {
			reason: "the client's wish for a fresh answer is its own and passes",
			send:   []string{"Connection: keep-alive", "Cache-Control: no-cache"},
			want:   http.Header{"Connection": {"keep-alive"}, "Cache-Control": {"no-cache"}},
		},
		"ClientsOwnMaxAge": {
			reason: "squid leaves a max-age as it is",
			send:   []string{"Connection: keep-alive", "Cache-Control: max-age=0"},
			want:   http.Header{"Connection": {"keep-alive"}, "Cache-Control": {"max-age=0"}},
		},
		"CacheControlThatSquidAddsTo": {
			reason: "squid would add its own max-age to this one, so it is left out",
			send:   []string{"Connection: keep-alive", "Cache-Control: no-transform"},
			want:   http.Header{"Connection": {"keep-alive"}},
		},
		"Credentials": {
			reason: "a credential for the origin passes, the one for the proxy does not",
			send:   []string{"Connection: keep-alive", "Authorization: Bearer x"},
			want:   http.Header{"Connection": {"keep-alive"}, "Authorization": {"Bearer x"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o.take()
			if got := p.ask(t, alice, "GET", "http://public.test/path?q=1", tc.send...); got.Status != 200 {
				t.Fatalf("got status %d, want 200", got.Status)
			}
			got := o.requests()
			if len(got) != 1 {
				t.Fatalf("the origin got %d requests, want 1", len(got))
			}
			if diff := cmp.Diff(tc.want, got[0].Header); diff != "" {
				t.Errorf("%s: headers -want, +got:\n%s", tc.reason, diff)
			}
			if got[0].URI != "/path?q=1" || got[0].Host != "public.test" {
				t.Errorf("got %s of %s, want /path?q=1 of public.test", got[0].URI, got[0].Host)
			}
		})
	}
}

func TestSquid_nothingIsCached(t *testing.T) {
	o := startOrigins(t)
	startDNS(t, destinationNames)
	p := startProxy(t, openToClient)
	for range 3 {
		p.get(t, nobody, "http://public.test/cacheable")
	}
	if got := len(o.requests()); got != 3 {
		t.Errorf("the origin got %d of 3 equal requests for a cacheable answer, want all", got)
	}
}

func TestSquid_looksUpNoClients(t *testing.T) {
	startOrigins(t)
	d := startDNS(t, destinationNames)
	p := startProxy(t, openToClient)
	p.get(t, nobody, "http://"+publicAddr+"/")
	d.mu.Lock()
	defer d.mu.Unlock()
	if diff := cmp.Diff(map[string]int{}, d.asked); diff != "" {
		t.Errorf("questions for a request that needs none -want, +got:\n%s", diff)
	}
}

func TestSquid_writesNoLogFiles(t *testing.T) {
	startOrigins(t)
	startDNS(t, destinationNames)
	spec := cloudinit.Spec{Hostname: "p1", User: alice.User, PasswordHash: hash(t, alice.Password)}
	p := startProxy(t, spec)
	p.get(t, alice, "http://public.test/")
	p.get(t, badAlice, "http://public.test/")
	for _, dir := range []string{"/var/log/squid", "/var/spool/squid"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			t.Errorf("%s/%s was written, want no file: it would grow, and tell who asked for what", dir, e.Name())
		}
	}
}

// TestSquid_noOtherDoor looks for everything else that squid can serve.
func TestSquid_noOtherDoor(t *testing.T) {
	startDNS(t, destinationNames)
	spec := openToClient
	spec.Hostname = "nameless" // not in DNS
	spec.Port = 8080           // a port that clients may ask for
	p := startProxy(t, spec)
	for _, target := range []string{
		"http://nameless:8080/squid-internal-mgr/menu", "http://nameless:8080/squid-internal-mgr/info",
		"http://nameless:8080/squid-internal-dynamic/netdb", "http://nameless:8080/squid-internal-periodic/store_digest",
		"http://nameless:8080/squid-internal-static/icons/SN.png", "http://public.test/squid-internal-mgr/menu", "http://nameless:8080/%73quid-internal-dynamic/netdb",
		"http://nameless/squid-internal-static/icons/SN.png", "http://" + proxyAddr + ":8080/squid-internal-mgr/menu",
		"cache_object://nameless/menu", "/squid-internal-mgr/menu", "/squid-internal-static/icons/SN.png", "/",
	} {
		if got := p.get(t, nobody, target); got.Status < 400 || got.Status == http.StatusProxyAuthRequired {
			t.Errorf("GET %s: got %d, want a refusal", target, got.Status)
		}
	}
	listening := run(t, "ss", "-Hltn")
	if got := len(regexp.MustCompile(`(?m)^LISTEN`).FindAllString(listening, -1)); got != 1 {
		t.Errorf("want one TCP listener, got:\n%s", listening)
	}
	udp := run(t, "ss", "-Hlun")
	if regexp.MustCompile(`:(3130|4827|3401) `).MatchString(udp) {
		t.Errorf("want no ICP, HTCP or SNMP, got:\n%s", udp)
	}
}

// TestSquid_passwords proves that squid's helper takes what HashPassword makes.
func TestSquid_passwords(t *testing.T) {
	startOrigins(t)
	startDNS(t, destinationNames)
	for name, password := range map[string]string{
		"Plain":      "correct horse battery staple",
		"Colons":     "a:b:c",
		"Quotes":     `q"u'o\t%41e#$`,
		"NotASCII":   "heslo žluťoučký 密码",
		"Longest":    "0123456789012345678901234567890123456789012345678901234567890123456789ab",
		"OneLetter":  "x",
		"FirstSpace": " x ",
	} {
		t.Run(name, func(t *testing.T) {
			hashed, err := cloudinit.HashPassword(password)
			if err != nil {
				t.Fatal(err)
			}
			p := startProxy(t, cloudinit.Spec{Hostname: "p1", User: "u.s-e_r+1@example", PasswordHash: hashed})
			c := client{User: "u.s-e_r+1@example", Password: password}
			if got := p.get(t, c, "http://public.test/").Status; got != 200 {
				t.Errorf("the right password got %d, want 200", got)
			}
			c.Password += "x"
			if got := p.get(t, c, "http://public.test/").Status; got != 407 && len(password) < 72 {
				t.Errorf("a longer password got %d, want 407", got)
			}
		})
	}
}
