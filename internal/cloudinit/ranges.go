package cloudinit

import "net/netip"

// neverOpened are ranges that AllowedPrivateDestinations cannot open.
var neverOpened = prefixes(
	"0.0.0.0/8",       // "this host": Linux connects it to itself
	"127.0.0.0/8",     // loopback
	"169.254.0.0/16",  // link-local, where clouds serve their metadata
	"224.0.0.0/4",     // multicast
	"255.255.255.255", // broadcast
	"::/96",           // unspecified, loopback, and the deprecated IPv4-compatible forms
	"fe80::/10",       // link-local
	"ff00::/8",        // multicast
)

// closedByDefault are the ranges of IANA's special-purpose registries that are no public destination,
// and, for IPv6, all that is not 2000::/3. IPv4-mapped addresses (::ffff:0:0/96) are not here: squid
// and the kernel both treat them as the IPv4 addresses that they are.
var closedByDefault = prefixes(
	"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", // private, RFC 1918
	"100.64.0.0/10",   // shared, RFC 6598
	"192.0.0.0/24",    // protocol assignments
	"192.0.2.0/24",    // documentation
	"198.51.100.0/24", // documentation
	"203.0.113.0/24",  // documentation
	"192.88.99.0/24",  // 6to4 relays, deprecated
	"198.18.0.0/15",   // benchmarking
	"240.0.0.0/4",     // reserved

	"::ffff:0:0:0/96",                           // IPv4-translated, RFC 2765
	"64:ff9b:1::/48",                            // NAT64 with a prefix of the network's own choice, RFC 8215
	"100::/8",                                   // discard-only, and reserved
	"200::/7", "400::/6", "800::/5", "1000::/4", // reserved
	"2001::/23",                                                // protocol assignments: Teredo, benchmarking, ORCHID
	"2001:db8::/32",                                            // documentation
	"2002::/16",                                                // 6to4, deprecated: it carries any IPv4 address
	"3fff::/20",                                                // documentation
	"4000::/3", "6000::/3", "8000::/3", "a000::/3", "c000::/3", // reserved
	"e000::/4", "f000::/5", "f800::/6", // reserved
	"fc00::/7",  // unique-local
	"fe00::/9",  // reserved
	"fec0::/10", // site-local, deprecated
)

// nat64 is the well-known prefix of RFC 6052. On a network with NAT64 every public IPv4 address is
// reached through it, so it stays open but for the forms of closed addresses.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// closedRanges are the ranges that the proxy refuses: the closed ones less those that were opened,
// the ones never opened, the guarded ones, and all their NAT64 forms.
func closedRanges(opened, guarded []netip.Prefix) []netip.Prefix {
	closed := subtract(closedByDefault, opened)
	closed = append(closed, neverOpened...)
	closed = append(closed, guarded...)
	for _, list := range [][]netip.Prefix{closedByDefault, neverOpened, guarded} {
		closed = append(closed, nat64Forms(list)...)
	}
	return normalize(closed)
}

// nat64Forms are the IPv6 prefixes under which a NAT64 gateway reaches the IPv4 ones of list.
func nat64Forms(list []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range list {
		if !p.Addr().Is4() {
			continue
		}
		bytes, v4 := nat64.Addr().As16(), p.Addr().As4()
		copy(bytes[12:], v4[:])
		out = append(out, netip.PrefixFrom(netip.AddrFrom16(bytes), nat64.Bits()+p.Bits()))
	}
	return out
}

// prefixes parses constants: CIDRs, or single addresses.
func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		p, err := parsePrefix(text)
		if err != nil {
			panic(err)
		}
		out[i] = p
	}
	return out
}
