package kvm2

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// reasonAddressInvalid: a host's address cannot be dialled as it is written.
const reasonAddressInvalid = "AddressInvalid"

// endpoint gives a host's "name:port" in the one spelling that is dialled and looked up in
// known_hosts. An address may carry its own port; it must then agree with the port field.
// The error is ErrPermanent.
func endpoint(h provider.KVMHost) (string, error) {
	name, port := splitAddress(h.Address)
	if name == "" || strings.ContainsAny(name, "[]/ ") {
		return "", provider.Errorf(provider.ErrPermanent, reasonAddressInvalid,
			"host %s: address %q is neither a host name nor an IP address", h.Name, h.Address)
	}
	configured := ""
	if h.Port != 0 {
		configured = strconv.Itoa(h.Port)
	}
	switch {
	case port == "" && configured == "":
		port = strconv.Itoa(provider.DefaultSSHPort)
	case port == "":
		port = configured
	case configured != "" && configured != port:
		return "", provider.Errorf(provider.ErrPermanent, reasonAddressInvalid,
			"host %s: address %q and port %s disagree: name the port once", h.Name, h.Address, configured)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", provider.Errorf(provider.ErrPermanent, reasonAddressInvalid,
			"host %s: port %q is not between 1 and 65535", h.Name, port)
	}
	return net.JoinHostPort(normalHost(name), port), nil
}

// splitAddress takes a port off an address. Colons of a bare IPv6 address are none.
func splitAddress(address string) (host, port string) {
	if _, err := netip.ParseAddr(address); err == nil {
		return address, ""
	}
	if h, p, err := net.SplitHostPort(address); err == nil {
		return h, p
	}
	if inner, ok := strings.CutPrefix(address, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok {
			return inner, ""
		}
	}
	return address, ""
}

// normalHost gives the one spelling of a host name or IP address: lower case, no trailing dot, an
// IPv6 address in its short form. OpenSSH compares known_hosts without regard to case as well.
func normalHost(name string) string {
	if ip, err := netip.ParseAddr(name); err == nil {
		return ip.String()
	}
	return strings.TrimSuffix(strings.ToLower(name), ".")
}
