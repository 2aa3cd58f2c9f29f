package kvm2

import (
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
