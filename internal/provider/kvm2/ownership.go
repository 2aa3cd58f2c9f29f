package kvm2

import (
	"context"
	"errors"
	"fmt"

	"github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// standing is what stands under a name on a host.
type standing struct {
	found bool
	dom   domain
	info  domainInfo
}

// look reads what stands under name. Only libvirt's own "no such domain" says that nothing does.
func look(ctx context.Context, c backend, name string) (standing, error) {
	dom, err := c.DomainLookupByName(ctx, name)
	if isLibvirtError(err, libvirt.ErrNoDomain) {
		return standing{}, nil
	}
	if err != nil {
		return standing{}, fmt.Errorf("look up domain %s: %w", name, err)
	}
	info, err := readDomain(ctx, c, dom)
	if isLibvirtError(err, libvirt.ErrNoDomain) {
		return standing{}, nil
	}
	if err != nil {
		return standing{}, err
	}
	return standing{found: true, dom: dom, info: info}, nil
}

// readDomain gets and parses a domain's definition.
func readDomain(ctx context.Context, c backend, dom domain) (domainInfo, error) {
	doc, err := c.DomainGetXMLDesc(ctx, dom)
	if err != nil {
		return domainInfo{}, fmt.Errorf("read domain %s: %w", dom.Name, err)
	}
	info, err := parseDomain(doc)
	if err != nil {
		return domainInfo{}, unreadableError{fmt.Errorf("read domain %s: %w", clip(dom.Name), err)}
	}
	return info, nil
}

// unreadableError is a domain whose definition came and does not parse: a doubt about that domain, and
// no more than that about its host.
type unreadableError struct{ error }

func (e unreadableError) Unwrap() error { return e.error }

// isAnswer reports whether err is something that libvirt answered, as against a connection that broke
// or a context that ended.
func isAnswer(err error) bool {
	var answer libvirt.Error
	return errors.As(err, &answer)
}

// owns reports whether a domain carries this installation's mark.
func (p *Provider) owns(info domainInfo) bool {
	return info.HasMark && info.Mark.Managed && info.Mark.Owner == p.owner
}

// describeOwner says in an error whose a domain is.
func describeOwner(info domainInfo) string {
	if !info.HasMark || !info.Mark.Managed {
		return "carries no mark of this operator"
	}
	return fmt.Sprintf("belongs to the installation %q", info.Mark.Owner)
}

// notOurs is the error of a Delete that meets a domain of somebody else.
func notOurs(name string, info domainInfo) error {
	return provider.Errorf(provider.ErrPermanent, provider.ReasonNotOurs,
		"domain %s %s: nothing was touched; remove it by hand if nobody needs it", name, describeOwner(info))
}

// nameConflict is the error of a Create that meets a domain of somebody else, or another instance.
func nameConflict(name, why string) error {
	return provider.Errorf(provider.ErrPermanent, provider.ReasonNameConflict,
		"a domain called %s exists and %s: nothing was touched; remove or rename it", name, why)
}
