package kvm2

import (
	"context"
	"fmt"
	"path"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// reasonMarkLost: the host's libvirt did not keep the mark of a domain.
const reasonMarkLost = "MarkLost"

// define makes the domain together with its mark, and reads the mark back before anything is started:
// libvirt drops metadata that it does not like in silence.
func (p *Provider) define(ctx context.Context, c conn, plan plan, disks diskPaths, createdAt time.Time) (domain, error) {
	virt, err := p.virt.of(ctx, c, plan.host.Name)
	if err != nil {
		return domain{}, err
	}
	spec := p.domainSpec(plan, disks, virt, createdAt)
	doc, err := domainXML(spec)
	if err != nil {
		return domain{}, err
	}
	provider.Report(ctx, provider.Progress{Step: "domain"})
	dom, err := c.DomainDefineXML(ctx, doc)
	if err != nil {
		return domain{}, fmt.Errorf("define domain %s: %w", plan.req.Name, err)
	}
	info, err := readDomain(ctx, c, dom)
	if err != nil {
		return domain{}, err
	}
	if !sameMark(info, spec.Mark) {
		return domain{}, p.refuseUnmarked(ctx, c, dom, info)
	}
	return dom, nil
}

// refuseUnmarked removes a domain that was defined a moment ago and came back without our mark: left
// alone it would block the name for ever, as nobody's. One that carries another mark is left alone.
func (p *Provider) refuseUnmarked(ctx context.Context, c backend, dom domain, info domainInfo) error {
	if info.HasMark {
		return nameConflict(dom.Name, "was defined by somebody else at the same time")
	}
	lost := provider.Errorf(provider.ErrPermanent, reasonMarkLost,
		"the host's libvirt did not keep the metadata of domain %s: no instance can be told from a foreign one there", dom.Name)
	if info.Active {
		return lost
	}
	if err := undefine(ctx, c, dom); err != nil {
		return fmt.Errorf("%w; and it could not be undefined: %w", lost, err)
	}
	return lost
}

// sameMark compares what was read back with what was written. The time may be another one: a process
// that defined the same instance in the same moment has its own.
func sameMark(info domainInfo, want mark) bool {
	got := info.Mark
	return info.HasMark && got.Managed == want.Managed && got.UID == want.UID && got.Owner == want.Owner &&
		got.Ref == want.Ref && !got.CreatedAt.IsZero()
}

// domainSpec says what the domain of a plan is made of.
func (p *Provider) domainSpec(plan plan, disks diskPaths, virt virtualization, createdAt time.Time) domainSpec {
	return domainSpec{
		Name: plan.req.Name, UID: plan.req.UID,
		VCPUs: plan.machine.VCPUs, MemoryMiB: plan.machine.MemoryMiB,
		Firmware: plan.image.Firmware, Bridge: plan.host.Bridge, MAC: macFor(plan.req.UID),
		OverlayPath: disks.overlay, SeedPath: disks.seed,
		ConsoleLogPath: path.Join(path.Dir(disks.overlay), consoleLogName(plan.req.Name)),
		Mark:           mark{Managed: true, UID: plan.req.UID, Owner: p.owner, Ref: plan.req.Ref, CreatedAt: createdAt.UTC()},
		Virt:           virt,
	}
}
