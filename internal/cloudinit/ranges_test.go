package cloudinit

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func within(list []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(addr) })
}

func TestClosedRanges(t *testing.T) {
	opened := prefixes("10.1.0.0/16", "fd00:1::/32", "126.0.0.0/7", "0.0.0.0/6")
	guarded := prefixes("10.1.0.1", "8.8.8.0/24", "2a00::7")
	for name, tc := range map[string]struct {
		opened, guarded []netip.Prefix
		closed          []string
		open            []string
	}{
		"Default": {
			closed: []string{
				"0.0.0.0", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254", "169.254.169.254",
				"172.16.0.0", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.255.255", "198.18.0.1", "198.19.255.255",
				"198.51.100.7", "203.0.113.7", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
				"::", "::1", "::10.0.0.1", "::8.8.8.8", "64:ff9b::10.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b::255.255.255.255",
				"64:ff9b:1::1", "::ffff:0:10.0.0.1", "100::1", "2001::1", "2001:2::1", "2001:10::1", "2001:20::1", "2001:db8::1", "2002:a00:1::", "2002:808:808::1",
				"3fff::1", "4000::1", "5f00::1", "8000::1", "fc00::1", "fdff::1", "fe80::1", "febf::1", "fec0::1", "ff02::1", "ffff::",
			},
			open: []string{
				"1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0",
				"172.15.255.255", "172.32.0.0", "192.0.1.1", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
				"64:ff9b::8.8.8.8", "2000::1", "2001:200::1", "2001:4860::1", "2606:4700::1", "2a00::1", "3ffe::1",
			},
		},
		"OpenedAndGuarded": {
			opened: opened, guarded: guarded,
			closed: []string{"10.0.255.255", "10.2.0.0", "10.1.0.1", "64:ff9b::10.1.0.1", "64:ff9b::10.1.2.3", "127.0.0.1", "0.1.2.3", "8.8.8.8", "64:ff9b::8.8.8.8", "2a00::7", "fd00::1", "fd00:2::1"},
			open:   []string{"10.1.0.0", "10.1.0.2", "10.1.255.255", "fd00:1::1", "fd00:1:ffff::1", "8.8.9.8", "2a00::8"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := closedRanges(tc.opened, tc.guarded)
			for _, text := range tc.closed {
				if !within(got, netip.MustParseAddr(text)) {
					t.Errorf("%s is open, want it closed", text)
				}
			}
			for _, text := range tc.open {
				if within(got, netip.MustParseAddr(text)) {
					t.Errorf("%s is closed, want it open", text)
				}
			}
		})
	}
}

// TestClosedRanges_noIPv4Mapped: squid keeps IPv4 addresses as mapped ones, so a mapped prefix would
// close the whole of IPv4.
func TestClosedRanges_noIPv4Mapped(t *testing.T) {
	mapped := netip.MustParsePrefix("::ffff:0:0/96")
	for _, p := range closedRanges(nil, nil) {
		if p.Overlaps(mapped) {
			t.Errorf("%s overlaps %s", p, mapped)
		}
	}
}

// TestClosedRanges_disjoint: nft refuses a set whose intervals overlap.
func TestClosedRanges_disjoint(t *testing.T) {
	got := closedRanges(prefixes("10.1.0.0/16"), prefixes("10.0.0.0/7", "172.16.5.0/24", "10.1.1.1"))
	for i, p := range got {
		for _, q := range got[i+1:] {
			if p.Overlaps(q) {
				t.Errorf("%s and %s overlap", p, q)
			}
		}
	}
}

func TestNormalize(t *testing.T) {
	got := normalize(prefixes("2001:db8::/32", "10.0.0.0/8", "10.1.0.0/16", "10.1.1.1", "9.0.0.0/8", "10.0.0.0/8", "2001:db8:1::/48", "11.0.0.0/8"))
	want := []string{"9.0.0.0/8", "10.0.0.0/8", "11.0.0.0/8", "2001:db8::/32"}
	if diff := cmp.Diff(want, texts(got)); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestCoversFamily(t *testing.T) {
	for name, tc := range map[string]struct {
		list []netip.Prefix
		want bool
	}{
		"Nothing":    {nil, false},
		"All4":       {prefixes("0.0.0.0/0"), true},
		"All6":       {prefixes("192.0.2.0/24", "::/0"), true},
		"Halves":     {prefixes("128.0.0.0/1", "0.0.0.0/1"), true},
		"ThreeParts": {prefixes("0.0.0.0/1", "128.0.0.0/2", "192.0.0.0/2"), true},
		"OneMissing": {subtract(prefixes("0.0.0.0/0"), prefixes("192.0.2.1")), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := coversFamily(tc.list); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

// TestSubtract compares with what the sets mean, address by address.
func TestSubtract(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	prefix := func() netip.Prefix {
		addr := netip.AddrFrom4([4]byte{10, 0, 0, byte(random.IntN(256))})
		return netip.PrefixFrom(addr, 24+random.IntN(9)).Masked()
	}
	for range 200 {
		from, holes := []netip.Prefix{prefix(), prefix()}, []netip.Prefix{prefix(), prefix(), prefix()}
		got := subtract(from, holes)
		for last := range 256 {
			addr := netip.AddrFrom4([4]byte{10, 0, 0, byte(last)})
			if want := within(from, addr) && !within(holes, addr); within(got, addr) != want {
				t.Fatalf("%v without %v: %s is in the rest: %t, want %t", from, holes, addr, !want, want)
			}
		}
	}
}

func texts(list []netip.Prefix) []string {
	out := make([]string, len(list))
	for i, p := range list {
		out[i] = p.String()
	}
	return out
}
