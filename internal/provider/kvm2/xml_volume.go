package kvm2

import (
	"fmt"
	"strings"

	"libvirt.org/go/libvirtxml"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Modes of the files in the pool. libvirt gives a running domain's own disks to QEMU's user and takes
// them back; the shared base must be readable without that.
const (
	modePrivate = "0600"
	modeShared  = "0644"
)

// overlayName gives the name of an instance's disk. The two names of an instance are matched whole,
// never by prefix: vm-1 must not match vm-10, nor the overlay of an instance called vm-1-seed.
func overlayName(name string) string { return name + ".qcow2" }

// seedName gives the name of an instance's cloud-init volume.
func seedName(name string) string { return name + "-seed.iso" }

// consoleLogName gives the name of the file with an instance's console. virtlogd makes it when the domain
// starts, so it is a volume from the next refresh of the pool on.
func consoleLogName(name string) string { return name + "-console.log" }

// isConsoleLog reports whether a volume is an instance's console log, or one of the older files that
// virtlogd keeps under its name with a number.
func isConsoleLog(volume, name string) bool {
	number, ok := strings.CutPrefix(volume, consoleLogName(name))
	if !ok || number == "" {
		return ok
	}
	number, ok = strings.CutPrefix(number, ".")
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}

// overlayVolumeXML describes a qcow2 volume of sizeBytes over the file at basePath. The base's format is
// stated: libvirt records an unstated one as raw, and the guest would read qcow2 headers as its disk.
func overlayVolumeXML(name string, sizeBytes uint64, basePath, baseFormat string) (string, error) {
	if err := checkFilled("base path", basePath); err != nil {
		return "", err
	}
	if err := checkFilled("base format", baseFormat); err != nil {
		return "", err
	}
	vol := newVolume(name, provider.FormatQCOW2, sizeBytes, modePrivate)
	// Without it libvirt chooses the oldest version, 0.10, for the sake of tools before 2012.
	vol.Target.Compat = "1.1"
	vol.BackingStore = &libvirtxml.StorageVolumeBackingStore{
		Path:   basePath,
		Format: &libvirtxml.StorageVolumeTargetFormat{Type: baseFormat},
	}
	return marshalVolume(vol)
}

// rawVolumeXML describes a volume of sizeBytes that an upload fills, with the file mode given in octal.
func rawVolumeXML(name string, sizeBytes uint64, mode string) (string, error) {
	return marshalVolume(newVolume(name, provider.FormatRaw, sizeBytes, mode))
}

// newVolume has allocation 0: libvirt writes all of an unstated one at once.
func newVolume(name, format string, sizeBytes uint64, mode string) libvirtxml.StorageVolume {
	return libvirtxml.StorageVolume{
		Name:       name,
		Allocation: &libvirtxml.StorageVolumeSize{Unit: "bytes", Value: 0},
		Capacity:   &libvirtxml.StorageVolumeSize{Unit: "bytes", Value: sizeBytes},
		Target: &libvirtxml.StorageVolumeTarget{
			Format:      &libvirtxml.StorageVolumeTargetFormat{Type: format},
			Permissions: &libvirtxml.StorageVolumeTargetPermissions{Mode: mode},
		},
	}
}

func marshalVolume(vol libvirtxml.StorageVolume) (string, error) {
	if err := checkFilled("volume name", vol.Name); err != nil {
		return "", err
	}
	out, err := vol.Marshal()
	if err != nil {
		return "", provider.Errorf(provider.ErrPermanent, provider.ReasonInvalidRequest, "write the XML of volume %s: %w", vol.Name, err)
	}
	return out, nil
}

// volumeInfo is what one read of a volume's XML tells. Sizes are in bytes.
type volumeInfo struct {
	Name, Path, Format string
	// Capacity is the size that a guest sees, Allocation what the volume takes in the pool, Physical
	// the file's length; 0 where libvirt does not say.
	Capacity, Allocation, Physical uint64
	// BackingPath and BackingFormat are empty for a volume that stands alone.
	BackingPath, BackingFormat string
	// Modified is libvirt's text for the time of the last write.
	Modified string
}

// parseVolume reads the XML of any volume, others' included.
func parseVolume(xml string) (volumeInfo, error) {
	var vol libvirtxml.StorageVolume
	if err := vol.Unmarshal(xml); err != nil {
		return volumeInfo{}, fmt.Errorf("read the volume's XML: %w", err)
	}
	info := volumeInfo{
		Name: vol.Name, Capacity: sizeOf(vol.Capacity), Allocation: sizeOf(vol.Allocation), Physical: sizeOf(vol.Physical),
	}
	if t := vol.Target; t != nil {
		info.Path = t.Path
		if t.Format != nil {
			info.Format = t.Format.Type
		}
		if t.Timestamps != nil {
			info.Modified = t.Timestamps.Mtime
		}
	}
	if b := vol.BackingStore; b != nil {
		info.BackingPath = b.Path
		if b.Format != nil {
			info.BackingFormat = b.Format.Type
		}
	}
	return info, nil
}

// sizeOf gives a size. libvirt writes bytes, whatever unit a volume was made with.
func sizeOf(size *libvirtxml.StorageVolumeSize) uint64 {
	if size == nil {
		return 0
	}
	return size.Value
}
