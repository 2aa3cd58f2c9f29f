package kvm2

import (
	"slices"

	"libvirt.org/go/libvirtxml"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Domain types: kvm where the host has it, else QEMU's own translation (TCG), which is many times slower.
const (
	virtKVM  = "kvm"
	virtQEMU = "qemu"
)

// virtualization is what a host can run a domain with.
type virtualization struct {
	Type string // virtKVM or virtQEMU
	Arch string // as libvirt spells it: x86_64, aarch64
	// Machine is an alias, so that the domain gets the host's newest version of it. It may be empty:
	// libvirt's default then.
	Machine string
}

// machineAliases are the PCI Express machines that UEFI and virtio want.
var machineAliases = map[string]string{"x86_64": "q35", "aarch64": "virt"}

// bestVirtualization reads a host's capabilities (virConnectGetCapabilities) and chooses full
// virtualization for the host's own architecture, by KVM where it is usable.
func bestVirtualization(capabilitiesXML string) (virtualization, error) {
	var caps libvirtxml.Caps
	if err := caps.Unmarshal(capabilitiesXML); err != nil {
		return virtualization{}, provider.Errorf(provider.ErrTransient, provider.ReasonBackendError,
			"read the host's capabilities: %w", err)
	}
	if caps.Host.CPU == nil || caps.Host.CPU.Arch == "" {
		return virtualization{}, provider.Errorf(provider.ErrTransient, reasonVirtualizationUnavailable,
			"the host's capabilities name no architecture")
	}
	arch := caps.Host.CPU.Arch
	for _, guest := range caps.Guests {
		if guest.OSType != "hvm" || guest.Arch.Name != arch {
			continue
		}
		for _, kind := range []string{virtKVM, virtQEMU} {
			for _, d := range guest.Arch.Domains {
				if d.Type == kind {
					return virtualization{Type: kind, Arch: arch, Machine: machineFor(arch, guest.Arch.Machines, d.Machines)}, nil
				}
			}
		}
	}
	return virtualization{}, provider.Errorf(provider.ErrTransient, reasonVirtualizationUnavailable,
		"the host offers no virtual machines of its own architecture %s: install QEMU for it (on Debian, qemu-system) and restart libvirt",
		clip(arch))
}

// machineFor gives the preferred alias where one of the lists, the architecture's and the domain type's
// own, has it.
func machineFor(arch string, lists ...[]libvirtxml.CapsGuestMachine) string {
	alias := machineAliases[arch]
	for _, list := range lists {
		if slices.ContainsFunc(list, func(m libvirtxml.CapsGuestMachine) bool { return m.Name == alias }) {
			return alias
		}
	}
	return ""
}
