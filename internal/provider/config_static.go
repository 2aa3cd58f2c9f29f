package provider

import "slices"

// TypeStatic is the type of an entry that leases forward proxies which exist already.
const TypeStatic = "static"

// StaticPlacement is the one machine type, and the one image, that a placement in a static entry may name:
// nothing is made there, so there is nothing to choose.
const StaticPlacement = "existing"

// StaticConfig is the block of a static entry.
type StaticConfig struct {
	// LeaseDirectory keeps the leases. It is absolute after loading, must exist, and is shared by all who lease
	// the same endpoints.
	LeaseDirectory string `json:"leaseDirectory"`
	// Endpoints in the order in which they are leased.
	Endpoints []StaticEndpoint `json:"endpoints"`
}

// StaticEndpoint is one forward proxy that listens already.
type StaticEndpoint struct {
	// Name of it, for people. It may change while the endpoint is leased.
	Name string `json:"name"`
	// Zone of a placement that may get it.
	Zone string `json:"zone"`
	// Address is an IPv4 address. With Port it is what is leased.
	Address string `json:"address"`
	Port    int    `json:"port"`
}

// Zones in the order in which the endpoints name them first.
func (c *StaticConfig) Zones() []string {
	var zones []string
	for _, e := range c.Endpoints {
		if !slices.Contains(zones, e.Zone) {
			zones = append(zones, e.Zone)
		}
	}
	return zones
}

// In gives the endpoints of a zone, in order.
func (c *StaticConfig) In(zone string) []StaticEndpoint {
	return slices.DeleteFunc(slices.Clone(c.Endpoints), func(e StaticEndpoint) bool { return e.Zone != zone })
}
