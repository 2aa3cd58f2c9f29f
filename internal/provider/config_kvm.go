package provider

import "math"

// Defaults of the KVM block.
const (
	DefaultSSHPort = 22
	DefaultSocket  = "/run/libvirt/libvirt-sock"
	DefaultPool    = "default"
	DefaultBridge  = "br0"
)

// Firmware of an image.
const (
	FirmwareUEFI = "uefi"
	FirmwareBIOS = "bios"
)

// Format of an image.
const (
	FormatQCOW2 = "qcow2"
	FormatRaw   = "raw"
)

// KVMConfig is the block of a libvirt/KVM entry, shared by the types kvm and kvm2.
type KVMConfig struct {
	// Hosts in order of preference for listing. A host's name is its zone.
	Hosts []KVMHost `json:"hosts"`
	// SSHKeyFile and KnownHostsFile are read on every dial, so rotating them needs no restart. There is
	// no search for keys in other places.
	SSHKeyFile     string `json:"sshKeyFile"`
	KnownHostsFile string `json:"knownHostsFile,omitempty"`
	// InsecureIgnoreHostKey accepts any host key. For throw-away test hosts only.
	InsecureIgnoreHostKey bool `json:"insecureIgnoreHostKey,omitempty"`
	// MachineTypes and Images by the names that a placement uses. Add a key, never edit one.
	MachineTypes map[string]KVMMachineType `json:"machineTypes"`
	Images       map[string]KVMImage       `json:"images"`
	// ExtraVendorData is a shell script that runs once on first boot, beside ours.
	ExtraVendorData string `json:"extraVendorData,omitempty"`
}

// Host finds the host of a zone.
func (c *KVMConfig) Host(zone string) (KVMHost, bool) {
	for _, h := range c.Hosts {
		if h.Name == zone {
			return h, true
		}
	}
	return KVMHost{}, false
}

// KVMHost is one libvirt host.
type KVMHost struct {
	Name string `json:"name"`
	// Address is a host name in lower case or an IP address in its shortest form without brackets,
	// after loading. The file may write it in other ways, and with the port.
	Address string `json:"address"`
	Port    int    `json:"port,omitempty"`   // DefaultSSHPort
	User    string `json:"user"`             // an SSH user who may use the socket
	Socket  string `json:"socket,omitempty"` // DefaultSocket
	Pool    string `json:"pool,omitempty"`   // DefaultPool
	Bridge  string `json:"bridge,omitempty"` // DefaultBridge
}

// portUnset is the port of a host before validation, where the file gives none: the address may carry
// one, and an explicit 0 is a mistake.
const portUnset = math.MinInt

func (h *KVMHost) setDefaults() {
	*h = KVMHost{Port: portUnset, Socket: DefaultSocket, Pool: DefaultPool, Bridge: DefaultBridge}
}

// KVMMachineType is the size of a VM.
type KVMMachineType struct {
	VCPUs      int `json:"vcpus"`
	MemoryMiB  int `json:"memoryMiB"`
	DiskSizeGb int `json:"diskSizeGb"` // in GiB, as qemu-img counts
}

// KVMImage is a cloud image.
type KVMImage struct {
	URL                  string `json:"url"`
	SHA256               string `json:"sha256,omitempty"` // 64 hex digits, lower case after loading
	InsecureSkipChecksum bool   `json:"insecureSkipChecksum,omitempty"`
	Firmware             string `json:"firmware,omitempty"` // FirmwareUEFI
	Format               string `json:"format,omitempty"`   // FormatQCOW2
}

func (i *KVMImage) setDefaults() {
	*i = KVMImage{Firmware: FirmwareUEFI, Format: FormatQCOW2}
}
