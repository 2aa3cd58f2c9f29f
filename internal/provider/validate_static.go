package provider

import (
	"fmt"
	"net/netip"
	"path/filepath"
)

// maxEndpoints bounds what one health check connects to.
const maxEndpoints = 1024

// validateStatic checks a static block and brings its values into their normal form.
func validateStatic(prefix string, c *StaticConfig) Problems {
	at := prefix + "." + TypeStatic
	problems := leaseDirectoryProblems(at+".leaseDirectory", c)
	switch n := len(c.Endpoints); {
	case n == 0:
		problems.add(at+".endpoints", "is required: at least one proxy that exists")
	case n > maxEndpoints:
		problems.add(at+".endpoints", "must have at most %d endpoints, has %d", maxEndpoints, n)
	}
	names, places := map[string]int{}, map[string]int{}
	for i := range c.Endpoints {
		e, where := &c.Endpoints[i], fmt.Sprintf("%s.endpoints[%d]", at, i)
		found := endpointProblems(where, e)
		problems = append(problems, found...)
		if first, taken := names[e.Name]; taken && e.Name != "" {
			problems.add(where+".name", "is taken by endpoints[%d]", first)
		} else {
			names[e.Name] = i
		}
		// One proxy under two names would be leased twice.
		place := fmt.Sprintf("%s:%d", e.Address, e.Port)
		if first, taken := places[place]; taken && found == nil {
			problems.add(where+".address", "is the same proxy as endpoints[%d]: address and port may stand once", first)
		} else {
			places[place] = i
		}
	}
	return problems
}

func leaseDirectoryProblems(at string, c *StaticConfig) Problems {
	if c.LeaseDirectory == "" {
		return Problems{{at, "is required: a directory that exists, where the leases are kept"}}
	}
	if problem := expandHome(&c.LeaseDirectory); problem != "" {
		return Problems{{at, problem}}
	}
	if c.LeaseDirectory = filepath.Clean(c.LeaseDirectory); c.LeaseDirectory == "/" {
		return Problems{{at, "must be a directory for leases only, is /"}}
	}
	return nil
}

func endpointProblems(at string, e *StaticEndpoint) Problems {
	problems := append(labelProblems(at+".name", e.Name), labelProblems(at+".zone", e.Zone)...)
	ip, err := netip.ParseAddr(e.Address)
	switch {
	case e.Address == "":
		problems.add(at+".address", "is required: the proxy's IPv4 address")
	case err != nil || !ip.Unmap().Is4():
		problems.add(at+".address", "must be an IPv4 address without a port, is %s", quote(e.Address))
	case !leadsSomewhere(ip.Unmap()):
		problems.add(at+".address", "must be an address that clients reach: not loopback, link-local, multicast or unspecified, is %s", quote(e.Address))
	default:
		e.Address = ip.Unmap().String()
	}
	if e.Port < 1 || e.Port > maxPort {
		problems.add(at+".port", "must be 1 to %d, is %d", maxPort, e.Port)
	}
	return problems
}

// leadsSomewhere is false for the addresses that R2.3.16 forbids to report.
func leadsSomewhere(ip netip.Addr) bool {
	broadcast := ip == netip.AddrFrom4([4]byte{255, 255, 255, 255})
	return !ip.IsLoopback() && !ip.IsLinkLocalUnicast() && !ip.IsMulticast() && !ip.IsUnspecified() && !broadcast
}
