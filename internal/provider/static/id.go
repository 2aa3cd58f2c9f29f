package static

import (
	"regexp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// place is where a lease is and what it is called.
type place struct{ zone, name string }

// id is the ID of the lease at a place.
func (at place) id() string { return "zones/" + at.zone + "/leases/" + at.name }

// instanceFile is the second name of the place's lease. DNS labels have no underscore, so two places have two.
func (at place) instanceFile() string {
	return folderInstances + "/" + at.zone + "_" + at.name + ".json"
}

const label = `[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?`

var idForm = regexp.MustCompile(`^zones/(` + label + `)/leases/(` + label + `)$`)

// parseID takes an ID apart.
func parseID(id string) (place, error) {
	m := idForm.FindStringSubmatch(id)
	if m == nil {
		return place{}, provider.Errorf(provider.ErrPermanent, provider.ReasonInvalidID,
			"%.80q is no ID of a static provider: those are zones/<zone>/leases/<name>", id)
	}
	return place{zone: m[1], name: m[2]}, nil
}
