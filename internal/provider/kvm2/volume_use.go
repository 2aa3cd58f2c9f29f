package kvm2

import (
	"context"
	"fmt"
	"slices"

	"github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// checkUnused makes sure that no domain of anybody has the volume as a disk, as libvirt lets the disk
// of a running domain be deleted without a word. A domain that cannot be read may be the one, so it is
// a doubt, which is ErrTransient. It reads every domain of the host, so it is for what should not
// happen, not for every Create and Delete.
func checkUnused(ctx context.Context, c backend, instance string, vol volume) error {
	path, err := pathOf(ctx, c, vol)
	if err != nil {
		return err
	}
	domains, err := c.ConnectListAllDomains(ctx)
	if err != nil {
		return fmt.Errorf("list the domains: %w", err)
	}
	for _, r := range readDomains(ctx, c, domains) {
		switch {
		case isLibvirtError(r.err, libvirt.ErrNoDomain):
		case r.err != nil:
			return r.err
		case !slices.Contains(r.info.DiskPaths, path):
		case r.dom.Name == instance:
			return provider.Errorf(provider.ErrTransient, reasonBusy,
				"domain %s, which has the disk %s, came to be in the meantime: another process is at it", instance, vol.Name)
		default:
			return provider.Errorf(provider.ErrPermanent, provider.ReasonNotOurs,
				"volume %s is a disk of domain %s, which is not the instance %s: nothing was touched; take the disk off that domain, or remove the domain",
				vol.Name, clip(r.dom.Name), instance)
		}
	}
	return nil
}
