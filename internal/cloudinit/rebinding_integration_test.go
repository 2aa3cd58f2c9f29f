//go:build integration

package cloudinit_test

import (
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestSquid_rebinding lets a name change its answer between squid's check and squid's connection. In
// real life that moment is short, but whoever owns the name can try as often as they like. Here it is
// made long: a reverse lookup that takes two seconds follows our check, and squid forgets after one.
func TestSquid_rebinding(t *testing.T) {
	for forbidden, port := range map[string]string{"10.1.2.3": "80", "127.0.0.1": "80", proxyAddr: "8080", neighbour6: "80"} {
		for name, tc := range map[string]struct {
			reason string
			guard  bool
			want   []string
		}{
			"Guarded":   {"the rule applies to the address connected to", true, []string{}},
			"Unguarded": {"squid's own rule alone does not see the second answer: else this test shows nothing", false, []string{forbidden}},
		} {
			t.Run(forbidden+"/"+name, func(t *testing.T) {
				o := startOrigins(t)
				d := startDNS(t, map[string]answer{"flip.test": func(n int) []netip.Addr {
					return parseAddrs([]string{[]string{publicAddr, forbidden}[min(n, 1)]})
				}})
				installUserData(t, openToClient)
				d.reverseDelay = 2 * time.Second
				edit(t, "/etc/squid/egress/squid.conf", "http_access deny closed\n", "http_access deny closed\n"+
					"acl slow srcdomain .nowhere.test\nhttp_access deny slow\nnegative_dns_ttl 1 second\npositive_dns_ttl 1 second\n")
				p := startInstalled(t, openToClient)
				if !tc.guard {
					run(t, "nft", "delete", "table", "inet", "egress")
				}
				p.get(t, nobody, "http://flip.test:"+port+"/")
				got := []string{}
				for _, v := range o.requests() {
					got = append(got, v.At.Addr().String())
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("%s: reached -want, +got:\n%s", tc.reason, diff)
				}
				if n := d.questions("flip.test"); n != 2 {
					t.Errorf("squid asked %d times for the name's addresses, want 2: one for the check, one to connect", n)
				}
			})
		}
	}
}

// edit replaces text in a file that user-data wrote.
func edit(t *testing.T, path, from, to string) {
	t.Helper()
	content := readFile(t, path)
	if !strings.Contains(content, from) {
		t.Fatalf("%s has no %q to change", path, from)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(content, from, to, 1)), 0o640); err != nil {
		t.Fatal(err)
	}
}
