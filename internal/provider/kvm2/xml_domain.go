package kvm2

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
	"libvirt.org/go/libvirtxml"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// agentChannel is the name of the virtio port that the guest agent listens on.
const agentChannel = "org.qemu.guest_agent.0"

// domainSpec is what a domain is made of. Paths are the volumes' files on the host.
type domainSpec struct {
	Name string
	// UID becomes the domain's UUID.
	UID       string
	VCPUs     int
	MemoryMiB int
	// Firmware is provider.FirmwareUEFI, also when empty, or provider.FirmwareBIOS.
	Firmware    string
	Bridge      string
	MAC         string
	OverlayPath string
	SeedPath    string
	// ConsoleLogPath is where the host keeps what the guest writes to its serial port.
	ConsoleLogPath string
	Mark           mark
	Virt           virtualization
}

// domainXML describes the domain of s. What XML cannot carry unchanged, or what libvirt would refuse
// only when the domain starts, is ErrPermanent with ReasonInvalidRequest.
func domainXML(s domainSpec) (string, error) {
	if err := s.check(); err != nil {
		return "", err
	}
	markElement, err := s.Mark.format()
	if err != nil {
		return "", err
	}
	dom := libvirtxml.Domain{
		Type:     s.Virt.Type,
		Name:     s.Name,
		UUID:     s.UID,
		Metadata: &libvirtxml.DomainMetadata{XML: markElement},
		Memory:   &libvirtxml.DomainMemory{Value: uint(s.MemoryMiB), Unit: "MiB"},
		VCPU:     &libvirtxml.DomainVCPU{Value: uint(s.VCPUs)},
		OS:       s.os(),
		Features: s.features(),
		CPU:      s.cpu(),
		Clock:    &libvirtxml.DomainClock{Offset: "utc"},
		// A proxy is meant to be up: it comes back from a reboot and from a crash. Powered off, it
		// is Stopped, and Create starts it.
		OnPoweroff: "destroy",
		OnReboot:   "restart",
		OnCrash:    "restart",
		Devices:    s.devices(),
	}
	out, err := dom.Marshal()
	if err != nil {
		return "", provider.Errorf(provider.ErrPermanent, provider.ReasonInvalidRequest, "write the XML of domain %s: %w", s.Name, err)
	}
	return out, nil
}

func (s domainSpec) check() error {
	for field, value := range map[string]string{
		"domain name": s.Name, "bridge": s.Bridge, "MAC": s.MAC, "overlay path": s.OverlayPath,
		"seed path": s.SeedPath, "console log path": s.ConsoleLogPath, "domain type": s.Virt.Type, "architecture": s.Virt.Arch,
	} {
		if err := checkFilled(field, value); err != nil {
			return err
		}
	}
	if err := checkText("machine", s.Virt.Machine); err != nil {
		return err
	}
	if id, err := uuid.Parse(s.UID); err != nil || id.String() != s.UID {
		return provider.Errorf(provider.ErrPermanent, provider.ReasonInvalidRequest, "the UID %q is not a UUID in canonical form", clip(s.UID))
	}
	if s.VCPUs < 1 || s.MemoryMiB < 1 {
		return provider.Errorf(provider.ErrPermanent, provider.ReasonInvalidRequest, "%d vCPUs and %d MiB of memory make no machine", s.VCPUs, s.MemoryMiB)
	}
	switch s.Firmware {
	case "", provider.FirmwareUEFI, provider.FirmwareBIOS:
		return nil
	}
	return provider.Errorf(provider.ErrPermanent, provider.ReasonInvalidRequest, "the firmware %q is neither %s nor %s",
		clip(s.Firmware), provider.FirmwareUEFI, provider.FirmwareBIOS)
}

// os lets libvirt choose the firmware's files. Debian's boot loader hangs under BIOS with a serial
// console and no video, so UEFI is the default; with secure boot it would want keys that an image
// built at home has not got.
func (s domainSpec) os() *libvirtxml.DomainOS {
	out := &libvirtxml.DomainOS{Type: &libvirtxml.DomainOSType{Type: "hvm", Arch: s.Virt.Arch, Machine: s.Virt.Machine}}
	if s.Firmware == provider.FirmwareBIOS {
		return out
	}
	out.Firmware = "efi"
	out.FirmwareInfo = &libvirtxml.DomainOSFirmwareInfo{Features: []libvirtxml.DomainOSFirmwareFeature{
		{Enabled: "no", Name: "enrolled-keys"},
		{Enabled: "no", Name: "secure-boot"},
	}}
	return out
}

func (s domainSpec) features() *libvirtxml.DomainFeatureList {
	out := &libvirtxml.DomainFeatureList{ACPI: &libvirtxml.DomainFeature{}}
	if s.Virt.Arch == "x86_64" {
		out.APIC = &libvirtxml.DomainFeatureAPIC{}
	}
	return out
}

// cpu gives the guest the host's own CPU where KVM runs it; without KVM that fails when the domain
// starts.
func (s domainSpec) cpu() *libvirtxml.DomainCPU {
	switch {
	case s.Virt.Type == virtKVM:
		return &libvirtxml.DomainCPU{Mode: "host-passthrough", Check: "none"}
	case s.Virt.Arch == "x86_64":
		return nil
	default:
		return &libvirtxml.DomainCPU{Mode: "maximum", Check: "none"}
	}
}

// devices has no video and no emulator path, which differs between distributions.
func (s domainSpec) devices() *libvirtxml.DomainDeviceList {
	first := uint(0)
	return &libvirtxml.DomainDeviceList{
		Disks: []libvirtxml.DomainDisk{s.overlayDisk(), s.seedDisk()},
		// Nothing here is on USB; without the controller the guest has less to probe.
		Controllers: []libvirtxml.DomainController{{Type: "usb", Model: "none"}},
		Interfaces: []libvirtxml.DomainInterface{{
			MAC:    &libvirtxml.DomainInterfaceMAC{Address: s.MAC},
			Source: &libvirtxml.DomainInterfaceSource{Bridge: &libvirtxml.DomainInterfaceSourceBridge{Bridge: s.Bridge}},
			Model:  &libvirtxml.DomainInterfaceModel{Type: "virtio"},
			// No network boot, and no need for its ROM files on the host.
			ROM: &libvirtxml.DomainROM{Enabled: "no"},
		}},
		// Cloud kernels write to the first serial port and hang without one. A pty drops what nobody
		// reads, so it does not block the guest. What was written is kept beside it by virtlogd, which
		// begins a new file at 2 MiB and keeps three old ones; a start goes on in the file.
		Serials: []libvirtxml.DomainSerial{{
			Source: &libvirtxml.DomainChardevSource{Pty: &libvirtxml.DomainChardevSourcePty{}},
			Log:    &libvirtxml.DomainChardevLog{File: s.ConsoleLogPath, Append: "on"},
			Target: &libvirtxml.DomainSerialTarget{Port: &first},
		}},
		Consoles: []libvirtxml.DomainConsole{{
			Source: &libvirtxml.DomainChardevSource{Pty: &libvirtxml.DomainChardevSourcePty{}},
			Target: &libvirtxml.DomainConsoleTarget{Type: "serial", Port: &first},
		}},
		Channels: []libvirtxml.DomainChannel{{
			Source: &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{Mode: "bind"}},
			Target: &libvirtxml.DomainChannelTarget{VirtIO: &libvirtxml.DomainChannelTargetVirtIO{Name: agentChannel}},
		}},
		RNGs: []libvirtxml.DomainRNG{{
			Model:   "virtio",
			Backend: &libvirtxml.DomainRNGBackend{Random: &libvirtxml.DomainRNGBackendRandom{Device: "/dev/urandom"}},
		}},
		MemBalloon: &libvirtxml.DomainMemBalloon{Model: "virtio"},
	}
}

// overlayDisk is a file disk, not a volume disk: AppArmor gives QEMU a rule for those only. The cache
// mode is left to QEMU's default, which keeps the guest's flushes and works on file systems without
// O_DIRECT; discard returns the guest's freed blocks to the pool.
func (s domainSpec) overlayDisk() libvirtxml.DomainDisk {
	return libvirtxml.DomainDisk{
		Device: "disk",
		Driver: &libvirtxml.DomainDiskDriver{Name: "qemu", Type: provider.FormatQCOW2, Discard: "unmap"},
		Source: &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: s.OverlayPath}},
		Target: &libvirtxml.DomainDiskTarget{Dev: "vda", Bus: "virtio"},
		Boot:   &libvirtxml.DomainDeviceBoot{Order: 1},
	}
}

// seedDisk is a virtio disk, not a CD-ROM: cloud kernels have no SATA driver, and cloud-init finds the
// seed by the file system's label wherever it is.
func (s domainSpec) seedDisk() libvirtxml.DomainDisk {
	return libvirtxml.DomainDisk{
		Device:   "disk",
		Driver:   &libvirtxml.DomainDiskDriver{Name: "qemu", Type: provider.FormatRaw},
		Source:   &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: s.SeedPath}},
		Target:   &libvirtxml.DomainDiskTarget{Dev: "vdb", Bus: "virtio"},
		ReadOnly: &libvirtxml.DomainDiskReadOnly{},
	}
}

// domainInfo is what one read of a domain's XML tells.
type domainInfo struct {
	Name, UUID string
	// Mark is zero where HasMark is false.
	Mark    mark
	HasMark bool
	// MACs of the domain's interfaces, in order, lower case.
	MACs []string
	// DiskPaths are the files behind the disks, in order.
	DiskPaths []string
	// BackingPaths are the files that those stand on, all the way down: libvirt knows them of a domain
	// that runs.
	BackingPaths []string
	// AgentConnected says that the guest agent has opened its port.
	AgentConnected bool
	// ConsoleLog is the file that keeps what the first serial port gets, "" for a domain without.
	ConsoleLog string
	// Active says that the domain has an ID, so it is not shut off.
	Active bool
}

// parseDomain reads the XML of any domain, others' included.
func parseDomain(xml string) (domainInfo, error) {
	var dom libvirtxml.Domain
	if err := dom.Unmarshal(xml); err != nil {
		return domainInfo{}, fmt.Errorf("read the domain's XML: %w", err)
	}
	info := domainInfo{Name: dom.Name, UUID: dom.UUID, Active: dom.ID != nil}
	if dom.Metadata != nil {
		var err error
		if info.Mark, info.HasMark, err = parseMark(dom.Metadata.XML); err != nil {
			return domainInfo{}, fmt.Errorf("read the metadata of domain %q: %w", clip(dom.Name), err)
		}
	}
	if dom.Devices == nil {
		return info, nil
	}
	for _, disk := range dom.Devices.Disks {
		info.addDisk(disk)
	}
	if serials := dom.Devices.Serials; len(serials) > 0 && serials[0].Log != nil {
		info.ConsoleLog = serials[0].Log.File
	}
	for _, iface := range dom.Devices.Interfaces {
		if iface.MAC != nil && iface.MAC.Address != "" {
			info.MACs = append(info.MACs, strings.ToLower(iface.MAC.Address))
		}
	}
	for _, channel := range dom.Devices.Channels {
		if t := channel.Target; t != nil && t.VirtIO != nil && t.VirtIO.Name == agentChannel {
			info.AgentConnected = info.AgentConnected || t.VirtIO.State == "connected"
		}
	}
	return info, nil
}

// addDisk takes up the file behind a disk, and what that stands on.
func (info *domainInfo) addDisk(disk libvirtxml.DomainDisk) {
	if file := fileOf(disk.Source); file != "" {
		info.DiskPaths = append(info.DiskPaths, file)
	}
	for b := disk.BackingStore; b != nil; b = b.BackingStore {
		if file := fileOf(b.Source); file != "" {
			info.BackingPaths = append(info.BackingPaths, file)
		}
	}
}

// fileOf is the file of a source, "" for one of another kind.
func fileOf(source *libvirtxml.DomainDiskSource) string {
	if source == nil || source.File == nil {
		return ""
	}
	return source.File.File
}
