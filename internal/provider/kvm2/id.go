package kvm2

import (
	"regexp"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// An ID is hosts/<host>/domains/<name>. It names one instance for ever, as names are never reused.
const idForm = "hosts/<host>/domains/<name>"

// A name is a DNS label, which keeps it out of the way of paths and of other volumes' names. A host
// is a zone's name from the configuration.
var (
	namePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	hostPattern = regexp.MustCompile(`^[A-Za-z0-9]([-._A-Za-z0-9]{0,251}[A-Za-z0-9])?$`)
)

// formatProviderID gives the ID of the instance called name on host.
func formatProviderID(host, name string) string {
	return "hosts/" + host + "/domains/" + name
}

// parseProviderID takes an ID apart. Anything that formatProviderID does not give for a valid host and
// name is ErrPermanent with ReasonInvalidID.
func parseProviderID(id string) (host, name string, err error) {
	parts := strings.Split(id, "/")
	if len(parts) != 4 || parts[0] != "hosts" || parts[2] != "domains" ||
		!hostPattern.MatchString(parts[1]) || !namePattern.MatchString(parts[3]) {
		return "", "", provider.Errorf(provider.ErrPermanent, provider.ReasonInvalidID,
			"the ID %q is not of the form %s", clip(id), idForm)
	}
	return parts[1], parts[3], nil
}
