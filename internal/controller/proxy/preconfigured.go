package proxy

import (
	"errors"
	"fmt"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// notApplied is the user-data for a proxy that exists already: the contract wants some, and nobody reads it.
const notApplied = "#cloud-config\n# This instance is a proxy already.\n"

// existing makes the inputs of a proxy that somebody else has set up (R12.10): the user's own credential is the
// one to probe with, so there are no kept keys. Nothing of the spec is built in, so no change of it replaces the
// instance.
func (r *Reconciler) existing(p *v1alpha1.Proxy, in *inputs) (err error) {
	if wanted := unenforced(p); wanted != nil {
		return &specError{v1alpha1.ReasonInvalidSpec, fmt.Errorf(
			"the entry %q has proxies that exist already, with rules of their own, and nobody would enforce %s: remove it from the spec",
			p.Spec.Provider, strings.Join(wanted, ", "))}
	}
	if p.Spec.Auth == nil {
		return &specError{v1alpha1.ReasonInvalidSpec, errors.New("spec.auth is needed: a Secret with what the existing proxy accepts")}
	}
	in.request = r.request(p)
	in.request.CloudInit = provider.Secret(notApplied)
	in.hash, err = hashOf([]any{"preconfigured"})
	return err
}

// unenforced names the fields that only a proxy of our own making obeys.
func unenforced(p *v1alpha1.Proxy) (fields []string) {
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"spec.allowedSources", len(p.Spec.AllowedSources) > 0},
		{"spec.allowedDestinations", len(p.Spec.AllowedDestinations) > 0},
		{"spec.allowedPrivateDestinations", len(p.Spec.AllowedPrivateDestinations) > 0},
		{"spec.sshAuthorizedKeys", len(p.Spec.SSHAuthorizedKeys) > 0},
		{"spec.cloudInit", p.Spec.CloudInit != nil},
	} {
		if field.set {
			fields = append(fields, field.name)
		}
	}
	return fields
}
