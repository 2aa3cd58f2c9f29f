package kvm2

import (
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

func TestEndpoint_everySpellingOneAddress(t *testing.T) {
	tests := map[string]struct {
		reason  string
		address string
		port    int
		want    string // empty: refused
	}{
		"Name":              {"the default port", "beelink.example.net", 0, "beelink.example.net:22"},
		"NamePort":          {"", "beelink.example.net", 2222, "beelink.example.net:2222"},
		"OwnPort":           {"", "beelink.example.net:2222", 0, "beelink.example.net:2222"},
		"OwnPortSame":       {"both agree", "beelink.example.net:2222", 2222, "beelink.example.net:2222"},
		"OwnPortOther":      {"which one is meant?", "beelink.example.net:2222", 22, ""},
		"CaseAndDot":        {"one spelling for known_hosts", "BeeLink.Example.net.", 22, "beelink.example.net:22"},
		"IPv4":              {"", "192.0.2.7", 22, "192.0.2.7:22"},
		"IPv6":              {"", "2001:db8::10", 0, "[2001:db8::10]:22"},
		"IPv6Port":          {"", "2001:db8::10", 2222, "[2001:db8::10]:2222"},
		"IPv6Long":          {"", "2001:0db8:0:0::10", 2222, "[2001:db8::10]:2222"},
		"IPv6Brackets":      {"", "[2001:db8::10]", 2222, "[2001:db8::10]:2222"},
		"IPv6BracketsPort":  {"", "[2001:db8::10]:2222", 0, "[2001:db8::10]:2222"},
		"IPv6BracketsOther": {"", "[2001:db8::10]:2222", 22, ""},
		"IPv6Zone":          {"", "fe80::1%eth0", 2222, "[fe80::1%eth0]:2222"},
		"Empty":             {"", "", 22, ""},
		"URL":               {"", "ssh://kvm1", 22, ""},
		"User":              {"the port is not a number", "kvm1:x", 0, ""},
		"Port0":             {"", "kvm1:0", 0, ""},
		"Port70000":         {"", "kvm1", 70000, ""},
		"HalfBracket":       {"", "[2001:db8::10", 22, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := endpoint(provider.KVMHost{Name: "kvm1", Address: tc.address, Port: tc.port})
			if tc.want == "" {
				wantError(t, err, provider.ErrPermanent, reasonAddressInvalid, "kvm1")
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("endpoint(%q, %d) = %q, %v; want %q (%s)", tc.address, tc.port, got, err, tc.want, tc.reason)
			}
		})
	}
}
