package kvm2

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// mapState turns libvirt's domain state (virDomainState) into the contract's. Every code that is not
// known to run, those of newer libvirts included, is Stopped: Create starts such an instance again.
func mapState(state int32, hasIP bool) provider.State {
	switch libvirt.DomainState(state) {
	case libvirt.DomainNostate:
		return provider.StateProvisioning
	case libvirt.DomainRunning, libvirt.DomainBlocked:
		if hasIP {
			return provider.StateRunning
		}
		return provider.StateProvisioning
	default:
		return provider.StateStopped
	}
}

// firstIPv4 gives the first usable IPv4 address on an interface whose MAC is one of macs, or "". The
// MAC is what tells the domain's own interface from tunnels and bridges inside the guest. A guest says
// what it likes here, so whatever does not parse is passed over.
func firstIPv4(ifaces []guestInterface, macs []string) string {
	for _, iface := range ifaces {
		if !slices.ContainsFunc(macs, func(mac string) bool { return mac != "" && strings.EqualFold(mac, iface.MAC) }) {
			continue
		}
		for _, text := range iface.Addrs {
			if addr, err := netip.ParseAddr(text); err == nil && usable(addr) {
				return addr.String()
			}
		}
	}
	return ""
}

// usable reports whether addr is an IPv4 address that others could reach.
func usable(addr netip.Addr) bool {
	return addr.Is4() && !addr.IsLoopback() && !addr.IsLinkLocalUnicast() &&
		!addr.IsUnspecified() && !addr.IsMulticast() && addr != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}
