package provider

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/google/uuid"
)

// maxLabel is the longest DNS label (RFC 1035, 2.3.4).
const maxLabel = 63

// ownerDigits and hashDigits are how many hex digits of each hash stand in a name; maxShort is what
// is left for the readable part.
const (
	ownerDigits = 6
	hashDigits  = 8
	maxShort    = maxLabel - len("proxy-") - ownerDigits - len("-") - len("-") - hashDigits
)

// uidNamespace is the name space of UIDFor: the version 5 UUID of the project's URL.
// It is e56ed196-69a7-586d-82c1-e019287698fa.
var uidNamespace = uuid.NewSHA1(uuid.NameSpaceURL,
	[]byte("https://gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator"))

// InstanceName is the name in the backend of the instance that ref asks for:
//
//	proxy-<owner>-<short name>-<hash>
//
// owner is OwnerDigits(owner). The short name is what follows the "/" of ref, as much of it as fits,
// with everything but letters and digits as single hyphens. The hash is the first 8 hex digits of the
// SHA-256 of owner, ref and UID with a zero byte between them.
//
// The name is a DNS label of at most 63 bytes that begins with a letter, so it is a host name, a file
// name and, with a suffix, a volume name. The same input always gives the same name; another UID gives
// another one, so that names are never reused.
func InstanceName(owner, ref, uid string) string {
	return "proxy-" + OwnerDigits(owner) + "-" + shortName(ref) + "-" +
		hexDigits(owner+"\x00"+ref+"\x00"+uid, hashDigits)
}

// OwnerDigits is how an owner appears in names: the first 6 hex digits of its SHA-256. Two owners may
// share them; the mark, not the name, says whose an instance is.
func OwnerDigits(owner string) string { return hexDigits(owner, ownerDigits) }

// UIDFor is the UID of the instance that a caller without an object store asks for by name: the RFC
// 9562 version 5 UUID of owner, entry and name with a zero byte between them, in the name space that is
// itself the version 5 UUID of the project's URL. The same three always give the same UID, so a
// command that was interrupted finds its instance again.
func UIDFor(owner, entry, name string) string {
	return uuid.NewSHA1(uidNamespace, []byte(owner+"\x00"+entry+"\x00"+name)).String()
}

// shortName makes the readable part of a name: lower-case letters and digits with single hyphens
// between them, never empty.
func shortName(ref string) string {
	name := strings.ToLower(ref[strings.LastIndexByte(ref, '/')+1:])
	words := strings.FieldsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	short := strings.Join(words, "-")
	short = strings.TrimRight(short[:min(len(short), maxShort)], "-")
	if short == "" {
		return "instance"
	}
	return short
}

// hexDigits gives the first n hex digits of text's SHA-256.
func hexDigits(text string, n int) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:n]
}

// isLabel reports whether s is a DNS label as RFC 1123 has it, in lower case.
func isLabel(s string) bool {
	if s == "" || len(s) > maxLabel || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	}) < 0
}
