package kvm2

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/digitalocean/go-libvirt"
	"github.com/go-logr/logr"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// removalSteps bounds removeDomain: a running domain takes two, destroy and undefine; one that was
// undefined while it ran, or started again meanwhile, takes a few more.
const removalSteps = 5

// removeDomain returns nil when no domain stands under name, and whether one did. Each round reads the
// mark again and then takes one destructive step, chosen by what the domain is now and not by what the
// last call answered.
func (p *Provider) removeDomain(ctx context.Context, c backend, name string) (stood bool, err error) {
	var answer error
	for range removalSteps {
		s, err := look(ctx, c, name)
		if err != nil {
			return stood, err
		}
		if !s.found {
			return stood, nil
		}
		if !p.owns(s.info) {
			return stood, notOurs(name, s.info)
		}
		if !stood {
			reportForeignDisks(ctx, name, s.info)
		}
		stood = true
		answer = removalStep(ctx, c, s)
		// Two answers are passed over, as the next look decides: the domain is gone already, or it is
		// in another state than a moment ago.
		if answer != nil && !isLibvirtError(answer, libvirt.ErrNoDomain, libvirt.ErrOperationInvalid) {
			return stood, answer
		}
	}
	return stood, provider.Errorf(provider.ErrTransient, reasonBusy,
		"domain %s is still there after %d steps: somebody starts it again, or its QEMU does not end (last answer: %v)", name, removalSteps, answer)
}

// removalStep stops an active domain and undefines another.
func removalStep(ctx context.Context, c backend, s standing) error {
	if !s.info.Active {
		return undefine(ctx, c, s.dom)
	}
	if err := c.DomainDestroy(ctx, s.dom); err != nil {
		return fmt.Errorf("destroy domain %s: %w", s.dom.Name, err)
	}
	return nil
}

// undefine removes the definition with everything that libvirt keeps with it. A libvirt that does not
// know a flag refuses all of them, so the newer ones are left out one by one.
func undefine(ctx context.Context, c backend, dom domain) error {
	flags := libvirt.DomainUndefineManagedSave | libvirt.DomainUndefineSnapshotsMetadata |
		libvirt.DomainUndefineNvram | libvirt.DomainUndefineCheckpointsMetadata
	var err error
	for _, dropped := range []libvirt.DomainUndefineFlagsValues{
		0, libvirt.DomainUndefineCheckpointsMetadata, libvirt.DomainUndefineNvram, libvirt.DomainUndefineSnapshotsMetadata,
	} {
		flags &^= dropped
		err = c.DomainUndefineFlags(ctx, dom, uint32(flags)) //nolint:gosec // flags are small and positive
		if !isLibvirtError(err, libvirt.ErrInvalidArg) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("undefine domain %s: %w", dom.Name, err)
	}
	return nil
}

// reportForeignDisks logs the disks that are not the instance's own two volumes: an admin's disk, or
// the file of an external snapshot. They stay.
func reportForeignDisks(ctx context.Context, name string, info domainInfo) {
	for _, file := range info.DiskPaths {
		own := slices.ContainsFunc([]string{overlayName(name), seedName(name)}, func(volume string) bool {
			return path.Base(file) == volume
		})
		if !own {
			logr.FromContextOrDiscard(ctx).V(1).Info("a disk that is not the instance's own stays on the host", "domain", name, "path", file)
		}
	}
}
