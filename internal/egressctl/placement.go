package egressctl

import (
	"maps"
	"slices"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// choices are what an entry offers for each part of a placement. Zones are in the file's order, the
// others in alphabetical order.
type choices struct {
	zones, machineTypes, images []string
}

func choicesOf(e provider.Entry) choices {
	if c := e.Static; c != nil {
		only := []string{provider.StaticPlacement}
		return choices{zones: c.Zones(), machineTypes: only, images: only}
	}
	c := e.KVM2
	if c == nil {
		return choices{}
	}
	out := choices{
		machineTypes: slices.Sorted(maps.Keys(c.MachineTypes)),
		images:       slices.Sorted(maps.Keys(c.Images)),
	}
	for _, h := range c.Hosts {
		out.zones = append(out.zones, h.Name)
	}
	return out
}

// complete fills in what is left out where there is one choice, and refuses what the entry does not
// have.
func (c choices) complete(entry string, p *provider.Placement) error {
	for _, part := range []struct {
		flag, what string
		value      *string
		has        []string
	}{
		{"--zone", "zone", &p.Zone, c.zones},
		{"--machine-type", "machine type", &p.MachineType, c.machineTypes},
		{"--image", "image", &p.Image, c.images},
	} {
		switch {
		case *part.value == "" && len(part.has) == 1:
			*part.value = part.has[0]
		case *part.value == "":
			return fail(CodeUsage, "%s: %s is needed, the entry has %s", entry, part.flag, listing(part.has))
		case !slices.Contains(part.has, *part.value):
			return fail(CodeUsage, "%s: there is no %s %q, the entry has %s", entry, part.what, *part.value, listing(part.has))
		}
	}
	return nil
}

// listing writes names for a sentence: "a", "a and b", "a, b and c".
func listing(names []string) string {
	switch n := len(names); n {
	case 0:
		return "none"
	case 1:
		return names[0]
	default:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
}
