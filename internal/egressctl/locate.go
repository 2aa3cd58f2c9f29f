package egressctl

import (
	"context"
	"errors"
	"slices"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/state"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// spot is an ID under which an instance may stand.
type spot struct {
	id   string
	zone string // may be empty
}

// locate gives the IDs under which an instance may stand. With a record that is one. Without, the ID
// follows from owner, entry, name and zone, so there is one for each zone; a provider that cannot say
// IDs before Create is asked for its list.
func (t *target) locate(ctx context.Context, name string, rec *state.Record) ([]spot, error) {
	if rec != nil && rec.ID != "" {
		return []spot{{id: rec.ID, zone: rec.Inputs.Placement.Zone}}, nil
	}
	if identifier, ok := provider.As[provider.Identifier](t.provider); ok {
		return t.possibleIDs(identifier, name)
	}
	instances, err := t.provider.ListByTag(ctx)
	if err != nil {
		return nil, refused(place{entry: t.entry.Name}, "look for "+name, err)
	}
	var out []spot
	for _, inst := range instances {
		if inst.Name == t.instanceName(name) {
			out = append(out, spot{id: inst.ID, zone: inst.Zone})
		}
	}
	return out, nil
}

func (t *target) possibleIDs(identifier provider.Identifier, name string) ([]spot, error) {
	c := choicesOf(t.entry)
	p := provider.Placement{}
	// Which ones makes no difference to the ID.
	if len(c.machineTypes) > 0 && len(c.images) > 0 {
		p.MachineType, p.Image = c.machineTypes[0], c.images[0]
	}
	var out []spot
	for _, zone := range c.zones {
		p.Zone = zone
		id, err := identifier.IDFor(t.identity(name, p))
		if err != nil {
			return nil, refused(place{t.entry.Name, zone}, "look for "+name, err)
		}
		out = append(out, spot{id: id, zone: zone})
	}
	return out, nil
}

// identity is a request that is good for an ID only.
func (t *target) identity(name string, p provider.Placement) provider.CreateRequest {
	return provider.CreateRequest{
		Name: t.instanceName(name), UID: t.uid(name), Owner: t.owner, Ref: refPrefix + name,
		Placement: p, CloudInit: provider.Secret("#cloud-config\n"),
	}
}

func (t *target) uid(name string) string {
	return provider.UIDFor(t.owner, t.entry.Name, name)
}

func (t *target) instanceName(name string) string {
	return provider.InstanceName(t.owner, refPrefix+name, t.uid(name))
}

// find reads an instance. It is NotFound only when every place where it may stand says so.
func (t *target) find(ctx context.Context, name string, rec *state.Record) (provider.Instance, error) {
	spots, err := t.locate(ctx, name, rec)
	if err != nil {
		return provider.Instance{}, err
	}
	var doubt error
	for _, s := range spots {
		inst, err := t.provider.Get(ctx, s.id)
		switch {
		case err == nil:
			return inst, nil
		case !errors.Is(err, provider.ErrNotFound) && doubt == nil:
			doubt = refused(place{t.entry.Name, s.zone}, "get "+name, err)
		}
	}
	if doubt != nil {
		return provider.Instance{}, doubt
	}
	return provider.Instance{}, fail(CodeNotFound, "%s: there is no instance %s", t.where(spots), name)
}

// where names the entry, and the host where there is one only.
func (t *target) where(spots []spot) place {
	zones := make([]string, 0, len(spots))
	for _, s := range spots {
		zones = append(zones, s.zone)
	}
	if zones = slices.Compact(zones); len(zones) == 1 {
		return place{t.entry.Name, zones[0]}
	}
	return place{entry: t.entry.Name}
}
