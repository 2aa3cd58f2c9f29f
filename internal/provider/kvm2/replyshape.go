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
	procConnectGetLibVersion     = 157
	procStorageVolUpload         = 208
	procDomainGetState           = 212
	procDomainUndefineFlags      = 231
	procConnectListAllDomains    = 273
	procStoragePoolListAllVolume = 282
	procDomainInterfaceAddresses = 353
)

// shape walks over one XDR value and tells whether it is all there and within its limits.
type shape func(*xdrCursor) bool

// replyShapes has every procedure that is called. A reply to another is refused.
var replyShapes = map[uint32]shape{
	procConnectOpen:              words(0),
	procConnectClose:             words(0),
	procConnectGetCapabilities:   text,
	procDomainCreate:             words(0),
	procDomainDefineXML:          domainShape,
	procDomainDestroy:            words(0),
	procDomainGetXMLDesc:         text,
	procDomainLookupByName:       domainShape,
	procDomainSetAutostart:       words(0),
	procConnectGetHostname:       text,
	procAuthList:                 list(maxXDRAuthTypes, words(1)),
	procAuthPolkit:               words(1),
	procStoragePoolRefresh:       words(0),
	procStoragePoolLookupByName:  fields(text, words(4)),
	procStoragePoolGetInfo:       words(7),
	procStoragePoolGetXMLDesc:    text,
	procStorageVolCreateXML:      volumeShape,
	procStorageVolDelete:         words(0),
	procStorageVolLookupByName:   volumeShape,
	procStorageVolGetXMLDesc:     text,
	procStorageVolGetPath:        text,
	procConnectGetLibVersion:     words(2),
	procStorageVolUpload:         words(0),
	procDomainGetState:           words(2),
	procDomainUndefineFlags:      words(0),
	procConnectListAllDomains:    fields(list(maxXDRList, domainShape), words(1)),
	procStoragePoolListAllVolume: fields(list(maxXDRList, volumeShape), words(1)),
	procDomainInterfaceAddresses: list(maxXDRInterfaces, interfaceShape),
}

var (
	domainShape    = fields(text, words(4), words(1)) // name, UUID, id
	volumeShape    = fields(text, text, text)         // pool, name, key
	addressShape   = fields(words(1), text, words(1)) // family, address, prefix
	interfaceShape = fields(text, list(1, text), list(maxXDRInterfaces, addressShape))
	// errorTail is what follows an error's code as the library reads it: domain, a flag, message, level.
	errorTail = fields(words(2), text, words(1))
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

// words is a value of n units of four bytes.
func words(n int) shape {
	return func(c *xdrCursor) bool { return c.skip(4 * n) }
}

// text is a string: its length, its bytes, zeros up to the next unit.
func text(c *xdrCursor) bool {
	n, ok := c.word()
	return ok && n <= maxXDRString && c.skip((int(n)+3)/4*4)
}

// fields is a structure.
func fields(parts ...shape) shape {
	return func(c *xdrCursor) bool {
		for _, part := range parts {
			if !part(c) {
				return false
			}
		}
		return true
	}
}

// list is an array of at most limit elements, with its count before them.
func list(limit uint32, element shape) shape {
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
