package provider

import (
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const maxPort = 65535

// normaliseAddress brings a host's address into one spelling, so that it is dialled and looked up in
// known_hosts under one name: lower case without a final dot, or an IP address in its shortest form
// without brackets. A port that the address carries goes to the port field, which must not differ.
func normaliseAddress(at string, h *KVMHost) Problems {
	var problems Problems
	host, port, problem := splitAddress(h.Address)
	switch {
	case problem != "":
		problems.add(at+".address", "%s", problem)
	case port != 0 && h.Port != portUnset && h.Port != port:
		problems.add(at+".address", "carries port %d while port is %d: leave one of them out", port, h.Port)
	default:
		h.Address = host
	}
	switch {
	case h.Port == portUnset && port != 0:
		h.Port = port
	case h.Port == portUnset:
		h.Port = DefaultSSHPort
	case h.Port < 1 || h.Port > maxPort:
		problems.add(at+".port", "must be 1 to %d, is %d", maxPort, h.Port)
	}
	return problems
}

// splitAddress reads every usual spelling of a host with or without a port; port 0 is none.
func splitAddress(s string) (host string, port int, problem string) {
	switch {
	case s == "":
		return "", 0, "is required: a host name or an IP address"
	case strings.Contains(s, "://"):
		return "", 0, "must be a host name or an IP address, not a URL"
	case strings.Contains(s, "@"):
		return "", 0, "must not carry a user name: that goes to user"
	}
	if ip, err := netip.ParseAddr(s); err == nil {
		return ipAddress(s, ip, 0)
	}
	host = s
	if i := strings.LastIndexByte(s, ':'); i > strings.LastIndexByte(s, ']') {
		host = s[:i]
		if port = portNumber(s[i+1:]); port == 0 {
			return "", 0, "must be a host name or an IP address, or one with a port of 1 to 65535, is " + quote(s)
		}
	}
	if inner, bracketed := strings.CutPrefix(host, "["); bracketed {
		inner, closed := strings.CutSuffix(inner, "]")
		ip, err := netip.ParseAddr(inner)
		if !closed || err != nil || !ip.Is6() {
			return "", 0, "must have an IPv6 address between its brackets, is " + quote(s)
		}
		return ipAddress(s, ip, port)
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is4() {
		return ipAddress(s, ip, port)
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if !isHostName(host) {
		return "", 0, "is neither a host name nor an IP address: " + quote(s)
	}
	return host, port, ""
}

// portNumber reads a port of 1 to 65535; everything else is 0.
func portNumber(digits string) int {
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return 0
	}
	return int(n)
}

func ipAddress(s string, ip netip.Addr, port int) (host string, _ int, problem string) {
	if ip.IsUnspecified() || ip.IsMulticast() || !isWord(s) {
		return "", 0, "must be the address of one host, is " + quote(s)
	}
	return ip.Unmap().String(), port, ""
}

// maxHostName is the longest DNS name as text without its final dot (RFC 1035, 2.3.4).
const maxHostName = 253

// isHostName reports whether s is a DNS name in lower case. Underscores pass: resolvers take them, and
// people have them. A name whose last label is a number is a mistyped IP address (RFC 1123, 2.1).
func isHostName(s string) bool {
	labels := strings.Split(s, ".")
	for _, label := range labels {
		if !isLabel(strings.ReplaceAll(label, "_", "x")) {
			return false
		}
	}
	return len(s) <= maxHostName && strings.Trim(labels[len(labels)-1], "0123456789") != ""
}

// expandHome makes *file absolute where it begins with "~/", or says why it is refused.
func expandHome(file *string) (problem string) {
	rest, tilde := strings.CutPrefix(*file, "~/")
	switch {
	case strings.Contains(*file, "-----BEGIN"): // a key where its file's name belongs: not repeated
		return "must be the path of a file, not its content"
	case !isPrintable(*file):
		return "must be a path, one line of printable text"
	case tilde:
		home, err := os.UserHomeDir()
		if err != nil || !filepath.IsAbs(home) {
			return "begins with ~/, and HOME is not set: write an absolute path"
		}
		*file = filepath.Join(home, rest)
	case !filepath.IsAbs(*file):
		return "must be an absolute path, or begin with ~/, is " + quote(*file)
	}
	return ""
}
