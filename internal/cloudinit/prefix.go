package cloudinit

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// parsePrefix reads a CIDR or a single address, the latter as a prefix of its full length.
func parsePrefix(text string) (netip.Prefix, error) {
	if strings.Contains(text, "/") {
		p, err := netip.ParsePrefix(text)
		return p.Masked(), err
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	if addr.Zone() != "" {
		return netip.Prefix{}, fmt.Errorf("%q has a zone", text)
	}
	addr = addr.Unmap()
	return netip.PrefixFrom(addr, addr.BitLen()), nil
}

// normalize sorts a list (IPv4 first), clears host bits, and leaves out what another prefix of the list
// contains.
func normalize(list []netip.Prefix) []netip.Prefix {
	sorted := make([]netip.Prefix, len(list))
	for i, p := range list {
		sorted[i] = p.Masked()
	}
	slices.SortFunc(sorted, netip.Prefix.Compare)
	var out []netip.Prefix
	for _, p := range sorted {
		// Compare puts a prefix before those that it contains, with none between that it does not.
		if n := len(out); n == 0 || !contains(out[n-1], p) {
			out = append(out, p)
		}
	}
	return out
}

// coversFamily says whether list holds every IPv4 address or every IPv6 address, in one piece or in many.
func coversFamily(list []netip.Prefix) bool {
	return slices.ContainsFunc(prefixes("0.0.0.0/0", "::/0"), func(family netip.Prefix) bool {
		return len(subtract([]netip.Prefix{family}, list)) == 0
	})
}

// contains says whether every address of inner is one of outer.
func contains(outer, inner netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}

// subtract gives what is left of from without the addresses of holes.
func subtract(from, holes []netip.Prefix) []netip.Prefix {
	left := slices.Clone(from)
	for _, hole := range holes {
		var next []netip.Prefix
		for _, p := range left {
			next = append(next, subtractOne(p, hole)...)
		}
		left = next
	}
	return left
}

// subtractOne halves p until its parts lie inside hole or outside.
func subtractOne(p, hole netip.Prefix) []netip.Prefix {
	if !p.Overlaps(hole) {
		return []netip.Prefix{p}
	}
	if contains(hole, p) {
		return nil
	}
	low, high := halves(p)
	return append(subtractOne(low, hole), subtractOne(high, hole)...)
}

func halves(p netip.Prefix) (low, high netip.Prefix) {
	low = netip.PrefixFrom(p.Addr(), p.Bits()+1)
	bytes := p.Addr().AsSlice()
	bytes[p.Bits()/8] |= 1 << (7 - p.Bits()%8)
	upper, _ := netip.AddrFromSlice(bytes) // 4 or 16 bytes, as they came
	return low, netip.PrefixFrom(upper, p.Bits()+1)
}

// byFamily splits a list into IPv4 and IPv6.
func byFamily(list []netip.Prefix) (v4, v6 []netip.Prefix) {
	for _, p := range list {
		if p.Addr().Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	return v4, v6
}
