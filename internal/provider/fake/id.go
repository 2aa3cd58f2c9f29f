package fake

import (
	"slices"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// place is where an instance stands: names are the zone's own.
type place struct{ zone, name string }

// ID gives the ID of the instance of that name in that zone.
func ID(zone, name string) string { return "zones/" + zone + "/instances/" + name }

func (at place) id() string { return ID(at.zone, at.name) }

// parse reads an ID.
func parse(id string) (place, error) {
	parts := strings.Split(id, "/")
	if len(parts) != 4 || parts[0] != "zones" || parts[2] != "instances" || parts[1] == "" || parts[3] == "" {
		return place{}, provider.Errorf(provider.ErrPermanent, provider.ReasonInvalidID,
			"an ID must be zones/<zone>/instances/<name>, is %q", id)
	}
	return place{zone: parts[1], name: parts[3]}, nil
}

// IDFor gives the ID that Create returns for the request, or the error of a request that Create refuses
// without asking the backend.
func (p *Provider) IDFor(req provider.CreateRequest) (string, error) {
	at, err := p.accept(req)
	if err != nil {
		return "", provider.Wrap(p.name, err)
	}
	return at.id(), nil
}

// accept checks what needs no backend.
func (p *Provider) accept(req provider.CreateRequest) (place, error) {
	if err := req.Validate(); err != nil {
		return place{}, err
	}
	if req.Owner != p.owner {
		return place{}, provider.Errorf(provider.ErrPermanent, provider.ReasonInvalidRequest,
			"the request's owner is %q, the provider's is %q", req.Owner, p.owner)
	}
	for _, choice := range []struct {
		what, value string
		known       []string
		reason      string
	}{
		{"zone", req.Placement.Zone, p.zones, provider.ReasonUnknownZone},
		{"machine type", req.Placement.MachineType, p.machineTypes, provider.ReasonUnknownMachineType},
		{"image", req.Placement.Image, p.images, provider.ReasonUnknownImage},
	} {
		if !slices.Contains(choice.known, choice.value) {
			return place{}, provider.Errorf(provider.ErrPermanent, choice.reason, "there is no %s %q, only %s",
				choice.what, choice.value, strings.Join(choice.known, ", "))
		}
	}
	return place{zone: req.Placement.Zone, name: req.Name}, nil
}
