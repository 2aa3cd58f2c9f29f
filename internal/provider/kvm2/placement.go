package kvm2

import (
	"maps"
	"slices"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// plan is a request with its placement looked up.
type plan struct {
	id        string
	req       provider.CreateRequest
	host      provider.KVMHost
	machine   provider.KVMMachineType
	image     provider.KVMImage
	imageName string
}

// diskBytes is the size of the instance's disk.
func (p plan) diskBytes() uint64 { return uint64(p.machine.DiskSizeGb) << 30 } //nolint:gosec // validated to be positive and small

// plan refuses, ErrPermanent, what can be refused without asking the backend.
func (p *Provider) plan(req provider.CreateRequest) (plan, error) {
	if err := req.Validate(); err != nil {
		return plan{}, err
	}
	if req.Owner != p.owner {
		return plan{}, provider.Errorf(provider.ErrPermanent, provider.ReasonInvalidRequest,
			"the request is of owner %q, this installation is %q", req.Owner, p.owner)
	}
	host, err := p.zone(req.Placement.Zone)
	if err != nil {
		return plan{}, err
	}
	machine, ok := p.config.MachineTypes[req.Placement.MachineType]
	if !ok {
		return plan{}, unknown(provider.ReasonUnknownMachineType, "machine type", req.Placement.MachineType, slices.Sorted(maps.Keys(p.config.MachineTypes)))
	}
	image, ok := p.config.Images[req.Placement.Image]
	if !ok {
		return plan{}, unknown(provider.ReasonUnknownImage, "image", req.Placement.Image, slices.Sorted(maps.Keys(p.config.Images)))
	}
	// The seed's files are checked here, so that nothing is made for user-data that no guest would read.
	if _, err := seedFiles(p.seedSpec(req)); err != nil {
		return plan{}, err
	}
	return plan{
		id: formatProviderID(host.Name, req.Name), req: req,
		host: host, machine: machine, image: image, imageName: req.Placement.Image,
	}, nil
}

// zone gives the host that a placement's zone names.
func (p *Provider) zone(name string) (provider.KVMHost, error) {
	if host, ok := p.host(name); ok {
		return host, nil
	}
	return provider.KVMHost{}, unknown(provider.ReasonUnknownZone, "zone", name, p.hosts.names())
}

// host gives a configured host by its name.
func (p *Provider) host(name string) (provider.KVMHost, bool) {
	for _, h := range p.config.Hosts {
		if h.Name == name {
			return h, true
		}
	}
	return provider.KVMHost{}, false
}

// unknown is the error for a placement that names what the configuration does not have.
func unknown(reason, what, got string, known []string) error {
	return provider.Errorf(provider.ErrPermanent, reason, "the entry has no %s %q, it has: %s", what, got, strings.Join(known, ", "))
}
