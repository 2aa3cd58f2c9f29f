package kvm2

import "encoding/binary"

// The bodies of libvirt's replies, as far as lengths go (libvirt's remote_protocol.x). The library
// allocates what a length in a reply says before it looks for the bytes, up to gigabytes, and a
// process that is out of memory cannot recover. So a reply is measured before it gets there.

// Limits of libvirt's own protocol.
const (
	maxXDRString     = 4 << 20
	maxXDRList       = 16384
	maxXDRInterfaces = 2048
	maxXDRAuthTypes  = 20
)

// Remote procedures that the package calls, by libvirt's numbers.
const (
	procConnectOpen              = 1
	procConnectClose             = 2
	procConnectGetCapabilities   = 7
	procDomainCreate             = 9
	procDomainDefineXML          = 11
	procDomainDestroy            = 12
	procDomainGetXMLDesc         = 14
	procDomainLookupByName       = 23
	procDomainSetAutostart       = 29
	procConnectGetHostname       = 59
	procAuthList                 = 66
	procAuthPolkit               = 70
	procStoragePoolRefresh       = 83
	procStoragePoolLookupByName  = 84
	procStoragePoolGetInfo       = 87
	procStoragePoolGetXMLDesc    = 88
	procStorageVolCreateXML      = 93
	procStorageVolDelete         = 94
	procStorageVolLookupByName   = 95
	procStorageVolGetXMLDesc     = 99
	procStorageVolGetPath        = 100
	procInterfaceLookupByName    = 128
	procInterfaceGetXMLDesc      = 130
	procConnectGetLibVersion     = 157
	procStorageVolUpload         = 208
	procStorageVolDownload       = 209
	procDomainGetState           = 212
	procDomainUndefineFlags      = 231
	procConnectListAllDomains    = 273
	procConnectListAllPools      = 281
	procStoragePoolListAllVolume = 282
	procGetDomainCapabilities    = 342
	procDomainInterfaceAddresses = 353
)

// procAgentCommand is a procedure of the QEMU program, which has numbers of its own.
const procAgentCommand = 3

// shape walks over one XDR value and tells whether it is all there and within its limits.
type shape func(*xdrCursor) bool

// shapeOf gives the shape of a procedure's reply; nil for one that is not called, whose reply is refused.
func shapeOf(program, procedure uint32) shape {
	switch {
	case program == remoteProgram:
		return replyShapes[procedure]
	case program == qemuProgram && procedure == procAgentCommand:
		return xdrOptString
	}
	return nil
}

// replyShapes has every procedure of the remote program that is called.
var replyShapes = map[uint32]shape{
	procConnectOpen:              xdrWords(0),
	procConnectClose:             xdrWords(0),
	procConnectGetCapabilities:   xdrText,
	procDomainCreate:             xdrWords(0),
	procDomainDefineXML:          domainShape,
	procDomainDestroy:            xdrWords(0),
	procDomainGetXMLDesc:         xdrText,
	procDomainLookupByName:       domainShape,
	procDomainSetAutostart:       xdrWords(0),
	procConnectGetHostname:       xdrText,
	procAuthList:                 xdrList(maxXDRAuthTypes, xdrWords(1)),
	procAuthPolkit:               xdrWords(1),
	procStoragePoolRefresh:       xdrWords(0),
	procStoragePoolLookupByName:  poolShape,
	procStoragePoolGetInfo:       xdrWords(7),
	procStoragePoolGetXMLDesc:    xdrText,
	procStorageVolCreateXML:      volumeShape,
	procStorageVolDelete:         xdrWords(0),
	procStorageVolLookupByName:   volumeShape,
	procStorageVolGetXMLDesc:     xdrText,
	procStorageVolGetPath:        xdrText,
	procInterfaceLookupByName:    xdrRepeat(2, xdrText), // name, MAC
	procInterfaceGetXMLDesc:      xdrText,
	procConnectGetLibVersion:     xdrWords(2),
	procStorageVolUpload:         xdrWords(0),
	procStorageVolDownload:       xdrWords(0),
	procDomainGetState:           xdrWords(2),
	procDomainUndefineFlags:      xdrWords(0),
	procConnectListAllDomains:    xdrFields(xdrList(maxXDRList, domainShape), xdrWords(1)),
	procConnectListAllPools:      xdrFields(xdrList(maxXDRList, poolShape), xdrWords(1)),
	procGetDomainCapabilities:    xdrText,
	procStoragePoolListAllVolume: xdrFields(xdrList(maxXDRList, volumeShape), xdrWords(1)),
	procDomainInterfaceAddresses: xdrList(maxXDRInterfaces, interfaceShape),
}

var (
	xdrInt, xdrUint = xdrWords(1), xdrWords(1)
	xdrUUID         = xdrWords(4)
	xdrOptString    = xdrList(1, xdrText)

	domainShape    = xdrFields(xdrText, xdrUUID, xdrInt) // name, UUID, id
	poolShape      = xdrFields(xdrText, xdrUUID)         // name, UUID
	volumeShape    = xdrRepeat(3, xdrText)               // pool, name, key
	addressShape   = xdrFields(xdrInt, xdrText, xdrUint) // family, address, prefix
	interfaceShape = xdrFields(xdrText, xdrOptString, xdrList(maxXDRInterfaces, addressShape))
	// errorTail is what follows an error's code as the library reads it: domain, a flag, message, level.
	errorTail = xdrFields(xdrWords(2), xdrText, xdrWords(1))
)

// errorShape is the body of an error. Code 0 says that there is none, which the library would take
// for success.
func errorShape(c *xdrCursor) bool {
	code, ok := c.word()
	return ok && code != 0 && errorTail(c)
}

// xdrCursor walks over an XDR body.
type xdrCursor struct{ rest []byte }

func (c *xdrCursor) word() (uint32, bool) {
	if len(c.rest) < 4 {
		return 0, false
	}
	w := binary.BigEndian.Uint32(c.rest)
	c.rest = c.rest[4:]
	return w, true
}

func (c *xdrCursor) skip(n int) bool {
	if n > len(c.rest) {
		return false
	}
	c.rest = c.rest[n:]
	return true
}

// xdrWords is a value of n units of four bytes.
func xdrWords(n int) shape {
	return func(c *xdrCursor) bool { return c.skip(4 * n) }
}

// xdrText is a string: its length, its bytes, zeros up to the next unit.
func xdrText(c *xdrCursor) bool {
	n, ok := c.word()
	return ok && n <= maxXDRString && c.skip((int(n)+3)/4*4)
}

// xdrFields is a structure.
func xdrFields(parts ...shape) shape {
	return func(c *xdrCursor) bool {
		for _, part := range parts {
			if !part(c) {
				return false
			}
		}
		return true
	}
}

// xdrRepeat is a structure of n fields of one kind.
func xdrRepeat(n int, part shape) shape {
	return func(c *xdrCursor) bool {
		for range n {
			if !part(c) {
				return false
			}
		}
		return true
	}
}

// xdrList is an array of at most limit elements, with its count before them.
func xdrList(limit uint32, element shape) shape {
	return func(c *xdrCursor) bool {
		n, ok := c.word()
		if !ok || n > limit {
			return false
		}
		for range n {
			if !element(c) {
				return false
			}
		}
		return true
	}
}
