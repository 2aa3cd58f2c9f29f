package kvm2

import (
	"bytes"
	"encoding/binary"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// headBytes is how much of an image its format is judged by: ISO 9660 begins last, at 32 KiB.
const headBytes = 64 << 10

// checkFormat judges the first bytes of an image of length bytes by their content, not by the name that
// they came under, and gives the size of the disk that a guest would see. What is not an image of the
// declared format, or one that leads QEMU to other files on the host, is ErrPermanent with
// ReasonImageInvalid.
func checkFormat(head []byte, length uint64, format string) (virtualSize uint64, err error) {
	if len(head) == 0 {
		return 0, invalidImage("is empty")
	}
	isQCOW2 := bytes.HasPrefix(head, qcow2Magic)
	switch {
	case format == provider.FormatQCOW2 && isQCOW2:
		return checkQCOW2(head, length)
	case format == provider.FormatRaw && isQCOW2:
		return 0, invalidImage("is qcow2, and the configuration says raw: say format: qcow2")
	}
	if what := recognise(head); what != "" {
		return 0, invalidImage("is %s, not a %s image", what, format)
	}
	switch {
	case format == provider.FormatQCOW2:
		return 0, invalidImage("does not begin as a qcow2 image: if it is a raw one, say format: raw")
	case !hasBootRecord(head):
		return 0, invalidImage("has no partition table, so it is no raw disk image")
	}
	return length, nil
}

func invalidImage(format string, args ...any) error {
	return provider.Errorf(provider.ErrPermanent, provider.ReasonImageInvalid, "the image "+format, args...)
}

// hasBootRecord looks for the signature that ends a boot sector; disks with a GPT have it too.
func hasBootRecord(head []byte) bool {
	return len(head) >= 512 && head[510] == 0x55 && head[511] == 0xAA
}

// otherContent is what servers send in place of a disk image, by the bytes at an offset.
var otherContent = []struct {
	what   string
	offset int
	magic  string
}{
	{"compressed with gzip (unpack it and publish that)", 0, "\x1f\x8b"},
	{"compressed with xz (unpack it and publish that)", 0, "\xfd7zXZ\x00"},
	{"compressed with zstd (unpack it and publish that)", 0, "\x28\xb5\x2f\xfd"},
	{"compressed with bzip2 (unpack it and publish that)", 0, "BZh"},
	{"a zip archive (unpack it and publish the disk in it)", 0, "PK\x03\x04"},
	{"a 7z archive (unpack it and publish the disk in it)", 0, "7z\xbc\xaf\x27\x1c"},
	{"a tar archive (unpack it and publish the disk in it)", 257, "ustar"},
	{"a VMDK image (convert it with qemu-img)", 0, "KDMV"},
	{"a VMDK image (convert it with qemu-img)", 0, "# Disk DescriptorFile"},
	{"a VHDX image (convert it with qemu-img)", 0, "vhdxfile"},
	{"a VHD image (convert it with qemu-img)", 0, "conectix"},
	{"a VirtualBox image (convert it with qemu-img)", 0, "<<< "},
	{"a QED image (convert it with qemu-img)", 0, "QED\x00"},
	{"a LUKS container", 0, "LUKS\xba\xbe"},
	{"an ISO 9660 image, which is for a CD-ROM", 32769, "CD001"},
}

// recognise names content that is no disk image, or "".
func recognise(head []byte) string {
	for _, c := range otherContent {
		if len(head) >= c.offset+len(c.magic) && string(head[c.offset:c.offset+len(c.magic)]) == c.magic {
			return c.what
		}
	}
	text := bytes.ToLower(bytes.TrimLeft(head[:min(len(head), 1024)], "\xef\xbb\xbf \t\r\n"))
	for _, start := range []string{"<!doctype", "<html", "<?xml", "<head", "<body"} {
		if bytes.HasPrefix(text, []byte(start)) {
			return "a web page, as an error page or a login portal sends"
		}
	}
	return ""
}

// The fixed part of the qcow2 header (docs/interop/qcow2.txt of QEMU), big-endian.
var qcow2Magic = []byte("QFI\xfb")

const (
	qcow2HeaderV2 = 72
	qcow2HeaderV3 = 104
	// Bits of incompatible_features in version 3.
	qcow2Corrupt      = 1 << 1
	qcow2ExternalData = 1 << 2
	qcow2Known        = 1<<5 - 1
)

// checkQCOW2 reads the header. A backing file or an external data file would be opened by QEMU on the
// host, by a name that whoever made the image chose.
func checkQCOW2(head []byte, length uint64) (virtualSize uint64, err error) {
	if len(head) < qcow2HeaderV2 {
		return 0, invalidImage("ends inside its qcow2 header")
	}
	be := binary.BigEndian
	version := be.Uint32(head[4:])
	backingOffset, clusterBits := be.Uint64(head[8:]), be.Uint32(head[20:])
	size, crypt := be.Uint64(head[24:]), be.Uint32(head[32:])
	l1Entries, l1Offset := uint64(be.Uint32(head[36:])), be.Uint64(head[40:])
	switch {
	case version != 2 && version != 3:
		return 0, invalidImage("is qcow2 of the unknown version %d", version)
	case backingOffset != 0:
		return 0, invalidImage("has a backing file: flatten it with qemu-img convert")
	case crypt != 0:
		return 0, invalidImage("is encrypted")
	case clusterBits < 9 || clusterBits > 21:
		return 0, invalidImage("has a damaged qcow2 header: clusters of 2^%d bytes", clusterBits)
	case size == 0:
		return 0, invalidImage("holds a disk of no size")
	case l1Offset > length || l1Entries*8 > length-l1Offset:
		return 0, invalidImage("is cut off: its tables end after its %d bytes", length)
	}
	if version == 3 {
		if err := checkFeatures(head); err != nil {
			return 0, err
		}
	}
	return size, nil
}

func checkFeatures(head []byte) error {
	if len(head) < qcow2HeaderV3 {
		return invalidImage("ends inside its qcow2 header")
	}
	features := binary.BigEndian.Uint64(head[72:])
	switch {
	case features&qcow2ExternalData != 0:
		return invalidImage("keeps its data in another file: flatten it with qemu-img convert")
	case features&qcow2Corrupt != 0:
		return invalidImage("is marked as corrupt: repair it with qemu-img check")
	case features&^qcow2Known != 0:
		return invalidImage("uses qcow2 features that are not known here (%#x)", features&^qcow2Known)
	}
	return nil
}

// checkFits refuses an image for a disk that is smaller: libvirt makes such an overlay without a word,
// and the guest's file system would end behind its disk.
func checkFits(virtualSize, diskBytes uint64) error {
	if virtualSize <= diskBytes {
		return nil
	}
	return invalidImage("holds a disk of %s, and the machine type's diskSizeGb makes one of %s: choose at least %d",
		gibibytes(virtualSize), gibibytes(diskBytes), (virtualSize+1<<30-1)>>30)
}
