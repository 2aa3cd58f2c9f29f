package kvm2

import (
	"encoding/xml"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

const testUID = "3f1e9a52-6a7d-5c1b-9d7e-0c6f2b1a4e10"

func testMark() mark {
	return mark{
		Managed: true, UID: testUID, Owner: "1a2b3c4d", Ref: "default/berlin-1",
		CreatedAt: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC),
	}
}

// testSpec gives a valid spec, changed by each of mods.
func testSpec(mods ...func(*domainSpec)) domainSpec {
	s := domainSpec{
		Name: "proxy-1a2b3c-berlin-0f1e2d3c", UID: testUID, VCPUs: 2, MemoryMiB: 1024,
		Bridge: "br0", MAC: macFor(testUID),
		OverlayPath: "/srv/vms/images/vm.qcow2", SeedPath: "/srv/vms/images/vm-seed.iso", ConsoleLogPath: "/srv/vms/images/vm-1-console.log",
		Mark: testMark(), Virt: virtualization{Type: virtKVM, Arch: "x86_64", Machine: "q35"},
	}
	for _, mod := range mods {
		mod(&s)
	}
	return s
}

// domainDoc is the part of a domain's XML that tests look at, read without the library that wrote it.
type domainDoc struct {
	Type string `xml:"type,attr"`
	Name string `xml:"name"`
	UUID string `xml:"uuid"`
	VCPU int    `xml:"vcpu"`
	Mem  struct {
		Unit  string `xml:"unit,attr"`
		Value int    `xml:",chardata"`
	} `xml:"memory"`
	OS struct {
		Firmware string `xml:"firmware,attr"`
		Type     struct {
			Arch    string `xml:"arch,attr"`
			Machine string `xml:"machine,attr"`
		} `xml:"type"`
		Features []struct {
			Enabled string `xml:"enabled,attr"`
			Name    string `xml:"name,attr"`
		} `xml:"firmware>feature"`
		Loader *struct{} `xml:"loader"`
	} `xml:"os"`
	CPU *struct {
		Mode string `xml:"mode,attr"`
	} `xml:"cpu"`
	OnPoweroff string `xml:"on_poweroff"`
	Metadata   struct {
		Any []struct {
			XMLName xml.Name
			Values  []struct {
				XMLName xml.Name
				Value   string `xml:",chardata"`
			} `xml:",any"`
		} `xml:",any"`
	} `xml:"metadata"`
	Disks []diskDoc `xml:"devices>disk"`
	NICs  []struct {
		Type string `xml:"type,attr"`
		MAC  struct {
			Address string `xml:"address,attr"`
		} `xml:"mac"`
		Source struct {
			Bridge string `xml:"bridge,attr"`
		} `xml:"source"`
		Model struct {
			Type string `xml:"type,attr"`
		} `xml:"model"`
	} `xml:"devices>interface"`
	Channels []struct {
		Type   string `xml:"type,attr"`
		Target struct {
			Type string `xml:"type,attr"`
			Name string `xml:"name,attr"`
		} `xml:"target"`
	} `xml:"devices>channel"`
	Serials  []struct{} `xml:"devices>serial"`
	Consoles []struct{} `xml:"devices>console"`
	RNGs     []struct {
		Model string `xml:"model,attr"`
	} `xml:"devices>rng"`
	Emulator *struct{} `xml:"devices>emulator"`
	Graphics *struct{} `xml:"devices>graphics"`
}

type diskDoc struct {
	Type   string `xml:"type,attr"`
	Device string `xml:"device,attr"`
	Driver struct {
		Type string `xml:"type,attr"`
	} `xml:"driver"`
	Source struct {
		File   string `xml:"file,attr"`
		Volume string `xml:"volume,attr"`
	} `xml:"source"`
	Target struct {
		Dev string `xml:"dev,attr"`
		Bus string `xml:"bus,attr"`
	} `xml:"target"`
	ReadOnly *struct{} `xml:"readonly"`
}

func mustDomainXML(t *testing.T, s domainSpec) (string, domainDoc) {
	t.Helper()
	out, err := domainXML(s)
	if err != nil {
		t.Fatalf("domainXML: %v", err)
	}
	var doc domainDoc
	if err := xml.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatalf("the XML does not parse: %v\n%s", err, out)
	}
	return out, doc
}

// AppArmor gives QEMU a rule for type="file" disks only.
func TestDomainXML_fileDisksWithResolvedPaths(t *testing.T) {
	out, doc := mustDomainXML(t, testSpec())
	if strings.Contains(out, `type="volume"`) {
		t.Errorf("a disk is of type volume:\n%s", out)
	}
	disk := func(file, format, dev string, readOnly bool) diskDoc {
		d := diskDoc{Type: "file", Device: "disk"}
		d.Driver.Type, d.Source.File, d.Target.Dev, d.Target.Bus = format, file, dev, "virtio"
		if readOnly {
			d.ReadOnly = &struct{}{}
		}
		return d
	}
	want := []diskDoc{
		disk("/srv/vms/images/vm.qcow2", "qcow2", "vda", false),
		// A CD-ROM would be invisible: Debian's cloud kernel has no SATA driver.
		disk("/srv/vms/images/vm-seed.iso", "raw", "vdb", true),
	}
	if diff := cmp.Diff(want, doc.Disks); diff != "" {
		t.Errorf("disks: -want, +got:\n%s", diff)
	}
}

func TestDomainXML_uefiDefaultSecureBootOff(t *testing.T) {
	for name, firmware := range map[string]string{"unset": "", "uefi": provider.FirmwareUEFI} {
		t.Run(name, func(t *testing.T) {
			_, doc := mustDomainXML(t, testSpec(func(s *domainSpec) { s.Firmware = firmware }))
			if doc.OS.Firmware != "efi" {
				t.Errorf("firmware is %q, want efi: Debian hangs in GRUB under BIOS without video", doc.OS.Firmware)
			}
			if doc.OS.Loader != nil {
				t.Error("a loader path is fixed, want libvirt to choose: paths differ between distributions")
			}
			got := map[string]string{}
			for _, f := range doc.OS.Features {
				got[f.Name] = f.Enabled
			}
			want := map[string]string{"secure-boot": "no", "enrolled-keys": "no"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("firmware features: -want, +got:\n%s", diff)
			}
		})
	}
}

func TestDomainXML_biosEscape(t *testing.T) {
	_, doc := mustDomainXML(t, testSpec(func(s *domainSpec) { s.Firmware = provider.FirmwareBIOS }))
	if doc.OS.Firmware != "" || len(doc.OS.Features) != 0 {
		t.Errorf("firmware is %q with features %v, want none of UEFI for firmware: bios", doc.OS.Firmware, doc.OS.Features)
	}
}

// libvirt drops an element without a namespace in silence.
func TestDomainXML_metadataElement(t *testing.T) {
	out, doc := mustDomainXML(t, testSpec())
	if len(doc.Metadata.Any) != 1 {
		t.Fatalf("there are %d metadata elements, want 1:\n%s", len(doc.Metadata.Any), out)
	}
	const ns = "https://gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/kvm2"
	element := doc.Metadata.Any[0]
	if want := (xml.Name{Space: ns, Local: "instance"}); element.XMLName != want {
		t.Errorf("element is %v, want %v", element.XMLName, want)
	}
	got := map[string]string{}
	for _, v := range element.Values {
		if v.XMLName.Space != ns {
			t.Errorf("%s is in namespace %q, want %q", v.XMLName.Local, v.XMLName.Space, ns)
		}
		got[v.XMLName.Local] = v.Value
	}
	want := map[string]string{
		"managed": "true", "uid": testUID, "owner": "1a2b3c4d", "ref": "default/berlin-1", "createdAt": "2026-11-29T12:00:00Z",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mark: -want, +got:\n%s", diff)
	}
}

func TestDomainXML_guestAgentChannel(t *testing.T) {
	_, doc := mustDomainXML(t, testSpec())
	if len(doc.Channels) != 1 {
		t.Fatalf("there are %d channels, want 1", len(doc.Channels))
	}
	c := doc.Channels[0]
	if c.Type != "unix" || c.Target.Type != "virtio" || c.Target.Name != "org.qemu.guest_agent.0" {
		t.Errorf("channel is %+v, want a unix one to the virtio port org.qemu.guest_agent.0", c)
	}
}

func TestDomainXML_identityAndDevices(t *testing.T) {
	_, doc := mustDomainXML(t, testSpec())
	if doc.UUID != testUID {
		t.Errorf("the UUID is %q, want the UID %q", doc.UUID, testUID)
	}
	if doc.VCPU != 2 || doc.Mem.Value != 1024 || doc.Mem.Unit != "MiB" {
		t.Errorf("the machine has %d vCPUs and %d %s, want 2 and 1024 MiB", doc.VCPU, doc.Mem.Value, doc.Mem.Unit)
	}
	if len(doc.NICs) != 1 || doc.NICs[0].Type != "bridge" || doc.NICs[0].Source.Bridge != "br0" ||
		doc.NICs[0].Model.Type != "virtio" || doc.NICs[0].MAC.Address != macFor(testUID) {
		t.Errorf("interfaces are %+v, want one virtio interface on br0 with the MAC of the UID", doc.NICs)
	}
	if len(doc.Serials) != 1 || len(doc.Consoles) != 1 {
		t.Errorf("there are %d serial ports and %d consoles, want one of each: cloud images hang without", len(doc.Serials), len(doc.Consoles))
	}
	if len(doc.RNGs) != 1 || doc.RNGs[0].Model != "virtio" {
		t.Errorf("random sources are %+v, want one of virtio", doc.RNGs)
	}
	if doc.Emulator != nil || doc.Graphics != nil {
		t.Error("an emulator path or graphics is set, want neither")
	}
	if doc.OnPoweroff != "destroy" {
		t.Errorf("on_poweroff is %q, want destroy", doc.OnPoweroff)
	}
}

func TestDomainXML_typeAndCPUFitTheHost(t *testing.T) {
	cases := map[string]struct {
		reason   string
		virt     virtualization
		wantMode string
	}{
		"KVM":            {"the host's CPU as it is", virtualization{Type: virtKVM, Arch: "x86_64", Machine: "q35"}, "host-passthrough"},
		"TCG":            {"host-passthrough fails at start without KVM", virtualization{Type: virtQEMU, Arch: "x86_64", Machine: "q35"}, ""},
		"TCG on Arm":     {"QEMU's default there is a 32-bit CPU", virtualization{Type: virtQEMU, Arch: "aarch64", Machine: "virt"}, "maximum"},
		"no known alias": {"libvirt's default machine then", virtualization{Type: virtKVM, Arch: "s390x"}, "host-passthrough"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, doc := mustDomainXML(t, testSpec(func(s *domainSpec) { s.Virt = tc.virt }))
			if doc.Type != tc.virt.Type || doc.OS.Type.Arch != tc.virt.Arch || doc.OS.Type.Machine != tc.virt.Machine {
				t.Errorf("domain is %s %s %s, want %+v", doc.Type, doc.OS.Type.Arch, doc.OS.Type.Machine, tc.virt)
			}
			mode := ""
			if doc.CPU != nil {
				mode = doc.CPU.Mode
			}
			if mode != tc.wantMode {
				t.Errorf("%s: CPU mode is %q, want %q", tc.reason, mode, tc.wantMode)
			}
		})
	}
}

// Odd values come back as they were, and add no element.
func TestDomainXML_roundTripsSpecialCharacters(t *testing.T) {
	for _, odd := range []string{
		`lan & dmz`, `p'1`, `say "hi"`, `é ü 漢`, `x'/><source file='/etc/shadow`, `]]><disk type="volume"/>`, `&lt;`, `<!--`, `a  b`,
	} {
		spec := testSpec(func(s *domainSpec) {
			s.Bridge, s.OverlayPath, s.SeedPath, s.ConsoleLogPath = odd, "/p/"+odd, "/q/"+odd, "/r/"+odd
			s.Mark.Owner, s.Mark.Ref = odd, odd
		})
		out, doc := mustDomainXML(t, spec)
		if len(doc.Disks) != 2 || len(doc.NICs) != 1 || doc.NICs[0].Source.Bridge != odd {
			t.Errorf("%q changed the document's shape or the bridge:\n%s", odd, out)
		}
		info, err := parseDomain(out)
		if err != nil {
			t.Fatalf("parse what was written for %q: %v", odd, err)
		}
		want := domainInfo{
			Name: spec.Name, UUID: testUID, Mark: spec.Mark, HasMark: true,
			MACs: []string{spec.MAC}, DiskPaths: []string{"/p/" + odd, "/q/" + odd}, ConsoleLog: "/r/" + odd,
		}
		if diff := cmp.Diff(want, info); diff != "" {
			t.Errorf("%q: -want, +got:\n%s", odd, diff)
		}
	}
}

func TestDomainXML_refusesWhatCannotRoundTrip(t *testing.T) {
	cases := map[string]struct {
		reason string
		mod    func(*domainSpec)
	}{
		"newline in the name":      {"libvirt refuses it", func(s *domainSpec) { s.Name = "a\nb" }},
		"control in the ref":       {"XML cannot carry it", func(s *domainSpec) { s.Mark.Ref = "a\x01b" }},
		"control in the owner":     {"XML cannot carry it", func(s *domainSpec) { s.Mark.Owner = "\x1b[31m" }},
		"bytes that are no UTF-8":  {"XML cannot carry them", func(s *domainSpec) { s.Bridge = "br\xff" }},
		"non-character":            {"XML cannot carry it", func(s *domainSpec) { s.OverlayPath = "/p/\uffff" }},
		"no name":                  {"libvirt refuses it", func(s *domainSpec) { s.Name = "" }},
		"no overlay":               {"an empty path is no disk", func(s *domainSpec) { s.OverlayPath = "" }},
		"no bridge":                {"it would fail only at start", func(s *domainSpec) { s.Bridge = "" }},
		"UID that is no UUID":      {"libvirt would refuse it", func(s *domainSpec) { s.UID = "abc" }},
		"UID in capitals":          {"it would not compare equal", func(s *domainSpec) { s.UID = strings.ToUpper(testUID) }},
		"no vCPU":                  {"it is no machine", func(s *domainSpec) { s.VCPUs = 0 }},
		"negative memory":          {"it is no machine", func(s *domainSpec) { s.MemoryMiB = -1 }},
		"unknown firmware":         {"a typo must not become UEFI", func(s *domainSpec) { s.Firmware = "coreboot" }},
		"no virtualization chosen": {"the host was not asked", func(s *domainSpec) { s.Virt = virtualization{} }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, err := domainXML(testSpec(tc.mod))
			if !errors.Is(err, provider.ErrPermanent) || out != "" {
				t.Errorf("%s: domainXML gives %q, %v, want ErrPermanent", tc.reason, out, err)
			}
		})
	}
}

func TestParseDomain_readsWhatLibvirtAdds(t *testing.T) {
	const running = `<domain type='kvm' id='7'>
  <name>vm</name><uuid>3f1e9a52-6a7d-5c1b-9d7e-0c6f2b1a4e10</uuid>
  <devices>
    <disk type='file' device='disk'><source file='/p/vm.qcow2' index='2'/><backingStore type='file'><format type='qcow2'/><source file='/p/base'/></backingStore><target dev='vda' bus='virtio'/></disk>
    <disk type='file' device='cdrom'><target dev='sda' bus='sata'/></disk>
    <disk type='volume' device='disk'><source pool='default' volume='x'/><target dev='vdc' bus='virtio'/></disk>
    <interface type='bridge'><mac address='52:54:00:AA:BB:CC'/><source bridge='br0'/></interface>
    <interface type='bridge'><mac address='52:54:00:00:00:01'/><source bridge='br1'/></interface>
    <channel type='unix'><target type='virtio' name='org.libguestfs.channel.0' state='connected'/></channel>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0' state='STATE'/></channel>
  </devices>
</domain>`
	want := domainInfo{
		Name: "vm", UUID: testUID, Active: true,
		MACs:      []string{"52:54:00:aa:bb:cc", "52:54:00:00:00:01"},
		DiskPaths: []string{"/p/vm.qcow2"}, BackingPaths: []string{"/p/base"},
	}
	for _, state := range []string{"connected", "disconnected"} {
		t.Run(state, func(t *testing.T) {
			want.AgentConnected = state == "connected"
			got, err := parseDomain(strings.ReplaceAll(running, "STATE", state))
			if err != nil {
				t.Fatalf("parseDomain: %v", err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
}

func TestParseDomain_refusesWhatIsNoDomain(t *testing.T) {
	for name, doc := range map[string]string{
		"empty": "", "cut": "<domain><name>vm", "entity": "<domain><name>&x;</name></domain>",
		"no UTF-8": "<domain><name>\xff</name></domain>", "other document": "<volume/>",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parseDomain(doc); err == nil {
				t.Errorf("parseDomain(%q) gives no error", doc)
			}
		})
	}
}

// No host, whatever it sends, may crash the operator.
func FuzzParseDomain(f *testing.F) {
	out, err := domainXML(testSpec())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(out)
	f.Add("<domain type='kvm' id='x'/>")
	f.Add("<domain><devices><interface type='bridge'/><disk type='file'/><channel type='unix'/></devices></domain>")
	f.Add("<domain><metadata><instance><uid>a</uid></instance></metadata></domain>")
	f.Fuzz(func(t *testing.T, doc string) {
		info, err := parseDomain(doc)
		if err == nil && !info.HasMark && info.Mark != (mark{}) {
			t.Errorf("a mark %+v was read where none was found", info.Mark)
		}
	})
}
