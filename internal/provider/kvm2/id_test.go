package kvm2

import (
	"errors"
	"strings"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

func TestFormatProviderID_roundTrip(t *testing.T) {
	cases := map[string]struct{ reason, host, name, want string }{
		"plain":     {"the form is hosts/<host>/domains/<name>", "beelink", "proxy-1a2b3c-berlin-0f1e2d3c", "hosts/beelink/domains/proxy-1a2b3c-berlin-0f1e2d3c"},
		"host name": {"a host may be called by its DNS name", "beelink.example.net", "vm", "hosts/beelink.example.net/domains/vm"},
		"one byte":  {"the shortest of both", "b", "v", "hosts/b/domains/v"},
		"longest":   {"a DNS label has up to 63 bytes", "beelink", strings.Repeat("a", 63), "hosts/beelink/domains/" + strings.Repeat("a", 63)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			id := formatProviderID(tc.host, tc.name)
			if id != tc.want {
				t.Errorf("%s: ID is %q, want %q", tc.reason, id, tc.want)
			}
			host, vm, err := parseProviderID(id)
			if err != nil || host != tc.host || vm != tc.name {
				t.Errorf("%s: parsing %q gives host %q, name %q, error %v", tc.reason, id, host, vm, err)
			}
		})
	}
}

func TestParseProviderID_malformed(t *testing.T) {
	cases := map[string]struct{ reason, id string }{
		"empty":             {"there is nothing to parse", ""},
		"host only":         {"the name is missing", "hosts/beelink"},
		"no name":           {"the name is empty", "hosts/beelink/domains/"},
		"no host":           {"the host is empty", "hosts//domains/vm"},
		"other collection":  {"the words are fixed", "hosts/beelink/volumes/vm"},
		"other root":        {"the words are fixed", "nodes/beelink/domains/vm"},
		"extra segment":     {"a trailing segment names something else", "hosts/beelink/domains/vm/disk"},
		"trailing slash":    {"an ID has one spelling", "hosts/beelink/domains/vm/"},
		"leading slash":     {"an ID has one spelling", "/hosts/beelink/domains/vm"},
		"capitals":          {"a name is a DNS label", "hosts/beelink/domains/VM"},
		"dots":              {"a name must not climb out of the pool's directory", "hosts/beelink/domains/.."},
		"space":             {"a name is a DNS label", "hosts/beelink/domains/my vm"},
		"newline":           {"a name is a DNS label", "hosts/beelink/domains/vm\n"},
		"hyphen at the end": {"a name is a DNS label", "hosts/beelink/domains/vm-"},
		"too long":          {"a name is a DNS label", "hosts/beelink/domains/" + strings.Repeat("a", 64)},
		"host with space":   {"a host is one word", "hosts/bee link/domains/vm"},
		"foreign form":      {"another provider's ID", "i-0123456789abcdef0"},
		"very long":         {"an ID comes from outside", strings.Repeat("x", 100_000)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, err := parseProviderID(tc.id)
			if !errors.Is(err, provider.ErrPermanent) || provider.ReasonOf(err) != provider.ReasonInvalidID {
				t.Fatalf("%s: parsing %.80q gives %v, want ErrPermanent with reason %s", tc.reason, tc.id, err, provider.ReasonInvalidID)
			}
			if len(err.Error()) > 2000 {
				t.Errorf("the error has %d bytes, want it bounded", len(err.Error()))
			}
		})
	}
}
