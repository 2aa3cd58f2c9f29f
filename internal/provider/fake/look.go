package fake

import (
	"maps"
	"slices"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Sight is an instance as an independent look finds it, without the provider.
type Sight struct {
	ID, Name, Zone string
	// Marked says that there is a mark; Owner, UID and Ref are the mark's.
	Marked          bool
	Owner, UID, Ref string
	Running         bool
	Addresses       []string
	Placement       provider.Placement
	CloudInit       provider.Secret
}

// Instances gives everything that stands in the backend, whoever owns it, by zone and name.
func (b *Backend) Instances() []Sight {
	b.mu.Lock()
	defer b.mu.Unlock()
	places := b.places(func(place) bool { return true })
	out := make([]Sight, 0, len(places))
	for _, at := range places {
		inst := b.instances[at].copy()
		seen := Sight{
			ID: at.id(), Name: at.name, Zone: at.zone, Marked: inst.mark != nil, Running: inst.running(),
			Addresses: inst.addresses, Placement: inst.placement, CloudInit: inst.cloudInit,
		}
		if inst.mark != nil {
			seen.Owner, seen.UID, seen.Ref = inst.mark.owner, inst.mark.uid, inst.mark.ref
		}
		out = append(out, seen)
	}
	return out
}

// Look finds one instance.
func (b *Backend) Look(id string) (Sight, bool) {
	for _, seen := range b.Instances() {
		if seen.ID == id {
			return seen, true
		}
	}
	return Sight{}, false
}

// Disks gives the IDs of the instances, there or not, whose disks are there.
func (b *Backend) Disks() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]string, 0, len(b.disks))
	for at := range b.disks {
		out = append(out, at.id())
	}
	slices.Sort(out)
	return out
}

// Made counts how often an instance was made under an ID.
func (b *Backend) Made(id string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.made[mustParse(id)]
}

// ReusedNames gives the names that were used with more than one UID, which a caller must not do (R12.1).
func (b *Backend) ReusedNames() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := []string{}
	for _, name := range slices.Sorted(maps.Keys(b.uids)) {
		if len(b.uids[name]) > 1 {
			out = append(out, name)
		}
	}
	return out
}
