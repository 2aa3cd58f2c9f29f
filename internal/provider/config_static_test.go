package provider_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// staticFile gives a providers file with one static entry.
func staticFile(block string) []byte {
	return []byte("checkURL: none\nproviders:\n- name: racks\n  type: static\n" + block)
}

func TestLoad_static(t *testing.T) {
	config, err := provider.Load(staticFile(`  static:
    leaseDirectory: /srv//leases/
    endpoints:
    - {name: berlin-1, zone: berlin, address: 192.0.2.1, port: 3128}
    - {name: prague-1, zone: prague, address: "::ffff:192.0.2.2", port: 8080}
    - {name: berlin-2, zone: berlin, address: 192.0.2.1, port: 3129}
`))
	if err != nil || len(config.Broken) > 0 {
		t.Fatalf("Load: %v, %v", err, config.Broken)
	}
	want := &provider.StaticConfig{LeaseDirectory: "/srv/leases", Endpoints: []provider.StaticEndpoint{
		{Name: "berlin-1", Zone: "berlin", Address: "192.0.2.1", Port: 3128},
		{Name: "prague-1", Zone: "prague", Address: "192.0.2.2", Port: 8080},
		{Name: "berlin-2", Zone: "berlin", Address: "192.0.2.1", Port: 3129},
	}}
	got := config.Providers[0].Static
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the block (-want, +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"berlin", "prague"}, got.Zones()); diff != "" {
		t.Errorf("the zones (-want, +got):\n%s", diff)
	}
	if in := got.In("berlin"); len(in) != 2 || in[0].Name != "berlin-1" || in[1].Name != "berlin-2" {
		t.Errorf("the endpoints in berlin are %v", in)
	}
}

func TestLoad_staticProblems(t *testing.T) {
	const at = "providers[0].static"
	good := "    - {name: a, zone: z, address: 192.0.2.1, port: 3128}\n"
	tests := map[string]struct {
		reason, block string
		want          []string
	}{
		"no block":      {"the block is required", "", []string{"providers[0].static: is required: the block of type static"}},
		"another block": {"one block only", "  static:\n    leaseDirectory: /l\n    endpoints:\n" + good + "  kvm2: {}\n", []string{"providers[0].kvm2: does not belong to type static: its block is static"}},
		"empty block": {"every problem at once", "  static: {}\n", []string{
			at + ".leaseDirectory: is required: a directory that exists, where the leases are kept",
			at + ".endpoints: is required: at least one proxy that exists",
		}},
		"unknown key": {"it is strict", "  static:\n    leaseDirectory: /l\n    lock: true\n    endpoints:\n" + good, []string{at + ".lock: unknown key; the keys here are leaseDirectory, endpoints"}},
		"relative":    {"a working directory says nothing", "  static:\n    leaseDirectory: leases\n    endpoints:\n" + good, []string{at + `.leaseDirectory: must be an absolute path, or begin with ~/, is "leases"`}},
		"root":        {"leases have a directory of their own", "  static:\n    leaseDirectory: /..\n    endpoints:\n" + good, []string{at + ".leaseDirectory: must be a directory for leases only, is /"}},
		"every field": {"each has its path", "  static:\n    leaseDirectory: /l\n    endpoints:\n    - {name: A, zone: \"\", address: proxy.example.org, port: 0}\n", []string{
			at + `.endpoints[0].name: must be a DNS label (a-z, 0-9 and hyphens between them, at most 63), is "A"`,
			at + `.endpoints[0].zone: must be a DNS label (a-z, 0-9 and hyphens between them, at most 63), is ""`,
			at + `.endpoints[0].address: must be an IPv4 address without a port, is "proxy.example.org"`,
			at + `.endpoints[0].port: must be 1 to 65535, is 0`,
		}},
		"loopback":        {"R2.3.16 would hide it", "  static:\n    leaseDirectory: /l\n    endpoints:\n    - {name: a, zone: z, address: 127.0.0.1, port: 3128}\n", []string{at + `.endpoints[0].address: must be an address that clients reach: not loopback, link-local, multicast or unspecified, is "127.0.0.1"`}},
		"IPv6":            {"addresses are IPv4", "  static:\n    leaseDirectory: /l\n    endpoints:\n    - {name: a, zone: z, address: \"2001:db8::1\", port: 3128}\n", []string{at + `.endpoints[0].address: must be an IPv4 address without a port, is "2001:db8::1"`}},
		"the same name":   {"names are for people, who tell them apart", "  static:\n    leaseDirectory: /l\n    endpoints:\n" + good + "    - {name: a, zone: z, address: 192.0.2.2, port: 3128}\n", []string{at + ".endpoints[1].name: is taken by endpoints[0]"}},
		"the same proxy":  {"it would be leased twice", "  static:\n    leaseDirectory: /l\n    endpoints:\n" + good + "    - {name: b, zone: y, address: \"::ffff:192.0.2.1\", port: 3128}\n", []string{at + ".endpoints[1].address: is the same proxy as endpoints[0]: address and port may stand once"}},
		"an empty member": {"an empty list item is a mistake", "  static:\n    leaseDirectory: /l\n    endpoints:\n" + good + "    -\n", []string{at + ".endpoints[1]: is empty"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			config, err := provider.Load(staticFile(tt.block))
			if err != nil || len(config.Broken) != 1 {
				t.Fatalf("%s: Load: %v, %d broken entries", tt.reason, err, len(config.Broken))
			}
			var got []string
			for _, p := range config.Broken[0].Problems {
				got = append(got, p.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want, +got):\n%s", tt.reason, diff)
			}
		})
	}
}
