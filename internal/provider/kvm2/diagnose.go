package kvm2

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Reasons that only a diagnosis gives.
const (
	reasonNoKVM            = "NoKVM"
	reasonBridgeNotBridge  = "NotABridge"
	reasonBridgeNotChecked = "BridgeNotChecked"
	reasonClockOff         = "ClockOff"
	reasonClockNotChecked  = "ClockNotChecked"
	reasonLittleSpace      = "LittleSpace"
)

// diagnosis collects what is found on one host.
type diagnosis struct {
	host     provider.KVMHost
	config   provider.KVMConfig
	findings []provider.Finding
}

func (d *diagnosis) add(severity provider.Severity, reason, remedy, format string, args ...any) {
	d.findings = append(d.findings, provider.Finding{
		Severity: severity, Reason: reason, Remedy: remedy,
		Message: "host " + d.host.Name + ": " + fmt.Sprintf(format, args...),
	})
}

// Diagnose looks for what would make a Create fail or slow, beyond what Check asks: virtualization,
// firmware, bridge, room and clock. It uses a connection of its own, as Check does, and makes the same
// few calls whatever is on the host.
func (p *Provider) Diagnose(ctx context.Context, zone string) ([]provider.Finding, error) {
	ctx, log := p.begin(ctx, "diagnose")
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	findings, err := p.diagnose(ctx, zone)
	if err != nil {
		return nil, p.failed(ctx, classifyInCreate, "diagnose host "+clip(zone), err)
	}
	log.V(1).Info("host diagnosed", "host", zone, "findings", len(findings))
	return findings, nil
}

func (p *Provider) diagnose(ctx context.Context, zone string) ([]provider.Finding, error) {
	host, err := p.zone(zone)
	if err != nil {
		return nil, err
	}
	c, err := p.hosts.dedicated(ctx, zone)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }() // the answers are in; nothing depends on a clean end
	d := &diagnosis{host: host, config: p.config}
	for _, look := range []func(context.Context, conn) error{d.virtualization, d.bridge, d.room, d.clock} {
		if err := look(ctx, c); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(d.findings, func(a, b provider.Finding) int {
		return cmp.Compare(severityOrder[a.Severity], severityOrder[b.Severity])
	})
	return d.findings, nil
}

var severityOrder = map[provider.Severity]int{provider.SeverityError: 0, provider.SeverityWarning: 1, provider.SeverityNote: 2}

// virtualization looks at what the host can run, and with which firmware.
func (d *diagnosis) virtualization(ctx context.Context, c conn) error {
	doc, err := c.ConnectGetCapabilities(ctx)
	if err != nil {
		return fmt.Errorf("read the host's capabilities: %w", err)
	}
	virt, err := bestVirtualization(doc)
	if err != nil {
		d.add(provider.SeverityError, provider.ReasonOf(err), "apt-get install qemu-system-x86 (or the one for its architecture), then systemctl restart libvirtd", "%v", err)
		return nil
	}
	if virt.Type != virtKVM {
		d.add(provider.SeverityWarning, reasonNoKVM, "switch virtualization on in its firmware, modprobe kvm_intel or kvm_amd, then systemctl restart libvirtd",
			"it has no usable KVM (/dev/kvm), so VMs are emulated and many times slower")
	}
	return d.firmware(ctx, c, virt)
}

// firmware asks only where an image wants UEFI.
func (d *diagnosis) firmware(ctx context.Context, c conn, virt virtualization) error {
	wanted := false
	for _, img := range d.config.Images {
		wanted = wanted || img.Firmware != provider.FirmwareBIOS
	}
	if !wanted {
		return nil
	}
	doc, err := c.ConnectGetDomainCapabilities(ctx, virt)
	if err != nil {
		return fmt.Errorf("read what the host's domains can have: %w", err)
	}
	var caps libvirtxml.DomainCaps
	if err := caps.Unmarshal(doc); err != nil {
		return fmt.Errorf("read what the host's domains can have: %w", err)
	}
	if !hasFirmware(caps, "efi") {
		d.add(provider.SeverityError, reasonFirmwareUnavailable, "apt-get install ovmf, or firmware: bios for an image that boots so",
			"it has no UEFI firmware, and no VM starts without")
	}
	return nil
}

func hasFirmware(caps libvirtxml.DomainCaps, firmware string) bool {
	if caps.OS == nil {
		return false
	}
	return slices.ContainsFunc(caps.OS.Enums, func(e libvirtxml.DomainCapsEnum) bool {
		return e.Name == "firmware" && slices.Contains(e.Values, firmware)
	})
}

// bridge asks libvirt's interface driver, which reads the kernel's list at the time. A host without that
// driver cannot tell; the start of the first VM will.
func (d *diagnosis) bridge(ctx context.Context, c conn) error {
	name := d.host.Bridge
	remedy := "make the bridge (docs/kvm2-provider.md, Prepare a host), or mend bridge in the providers file"
	iface, err := c.InterfaceLookupByName(ctx, name)
	switch {
	case isLibvirtError(err, libvirt.ErrNoInterface):
		d.add(provider.SeverityError, reasonBridgeNotFound, remedy, "it has no interface %s", name)
		return nil
	case isAnswer(err):
		d.add(provider.SeverityNote, reasonBridgeNotChecked, "ip -brief link show "+name, "its libvirt cannot list interfaces, so the bridge %s was not checked", name)
		return nil
	case err != nil:
		return fmt.Errorf("look up the bridge %s: %w", name, err)
	}
	doc, err := c.InterfaceGetXMLDesc(ctx, iface)
	if err != nil {
		return fmt.Errorf("read the bridge %s: %w", name, err)
	}
	var desc libvirtxml.Interface
	if err := desc.Unmarshal(doc); err != nil {
		return fmt.Errorf("read the bridge %s: %w", name, err)
	}
	if desc.Bridge == nil {
		d.add(provider.SeverityError, reasonBridgeNotBridge, remedy, "its interface %s is no bridge", name)
	}
	return nil
}

// room compares the pool's free space with the smallest disk that the entry can ask for. What is wrong
// with the pool itself is what Check reports.
func (d *diagnosis) room(ctx context.Context, c conn) error {
	p, err := c.StoragePoolLookupByName(ctx, d.host.Pool)
	if isAnswer(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look up pool %s: %w", d.host.Pool, err)
	}
	info, err := c.StoragePoolGetInfo(ctx, p)
	if isAnswer(err) || libvirt.StoragePoolState(info.State) != libvirt.StoragePoolRunning {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read pool %s: %w", d.host.Pool, err)
	}
	var smallest uint64
	for _, m := range d.config.MachineTypes {
		if size := uint64(m.DiskSizeGb) << 30; smallest == 0 || size < smallest { //nolint:gosec // validated to be positive and small
			smallest = size
		}
	}
	if needed := smallest + spaceReserve; info.Available < needed {
		d.add(provider.SeverityError, reasonLittleSpace, "make room in the pool: egressctl images --remove-unused, df -h on the host",
			"pool %s has %s available, and the smallest machine type needs %s beside the image", p.Name, gibibytes(info.Available), gibibytes(needed))
	}
	return nil
}
