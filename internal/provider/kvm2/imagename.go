package kvm2

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"path"
	"regexp"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// An image has two volumes in a pool:
//
//	kvm2-base-<key>-<attempt>.qcow2   the base, or .raw
//	kvm2-base-<key>.ok                the marker
//
// The key is the image's sha256, or that of its URL where the checksum is skipped. The attempt is new
// for each transfer, so two transfers never write to one volume, and a volume that was published is
// never written to again. It begins with a hash of the instance whose Create began the transfer, so that
// a Delete of that instance finds what a killed process left. The key alone is longer than an instance's
// name can be, so no instance's volume has such a name.
const (
	basePrefix   = "kvm2-base-"
	markerSuffix = ".ok"
	urlKeyPrefix = "url-"
)

// imageKey names an image's content.
type imageKey string

var sha256Pattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// keyOf gives the key. An image without a checksum, and without the explicit wish to do without, is
// ErrPermanent.
func keyOf(img provider.KVMImage) (imageKey, error) {
	if img.InsecureSkipChecksum {
		sum := sha256.Sum256([]byte(withoutUser(img.URL)))
		return imageKey(urlKeyPrefix + hex.EncodeToString(sum[:])), nil
	}
	if !sha256Pattern.MatchString(img.SHA256) {
		return "", provider.Errorf(provider.ErrPermanent, provider.ReasonImageInvalid,
			"the image has no sha256 of 64 lower-case hex digits: add it, or say insecureSkipChecksum")
	}
	return imageKey(img.SHA256), nil
}

// marker is the name of the volume that publishes a base of the key.
func (k imageKey) marker() string { return basePrefix + string(k) + markerSuffix }

// newBase gives the name of a base that nobody has used before, for a transfer that instance began.
func (k imageKey) newBase(instance, format string) string {
	var attempt [4]byte
	_, _ = rand.Read(attempt[:]) // never fails
	return basePrefix + string(k) + "-" + attemptTag(instance) + hex.EncodeToString(attempt[:]) + "." + format
}

// sha256 is the checksum in the key, "" for one that stands for a URL.
func (k imageKey) sha256() string {
	if strings.HasPrefix(string(k), urlKeyPrefix) {
		return ""
	}
	return string(k)
}

// markerPath gives the path of the key's marker, which lies beside its base.
func markerPath(basePath string, k imageKey) string { return path.Join(path.Dir(basePath), k.marker()) }

// markerKey gives the key of a marker's name.
func markerKey(name string) (imageKey, bool) {
	m := markerPattern.FindStringSubmatch(name)
	if m == nil {
		return "", false
	}
	return imageKey(m[1]), true
}

var markerPattern = regexp.MustCompile(`^` + basePrefix + `((?:url-)?[0-9a-f]{64})` + regexp.QuoteMeta(markerSuffix) + `$`)

// isBase reports whether name is that of a base of the key, by whatever attempt.
func (k imageKey) isBase(name string) bool {
	base, ok := parseBase(name)
	return ok && base.key == k
}

// baseName is what the name of a base says.
type baseName struct {
	key imageKey
	tag string // attemptTag of the instance whose Create began the transfer
}

var basePattern = regexp.MustCompile(`^` + basePrefix + `((?:url-)?[0-9a-f]{64})-([0-9a-f]{16})[0-9a-f]{8}\.(?:qcow2|raw)$`)

// parseBase tells a base, by its whole name, from everything else in a pool.
func parseBase(name string) (base baseName, ok bool) {
	parts := basePattern.FindStringSubmatch(name)
	if parts == nil {
		return baseName{}, false
	}
	return baseName{key: imageKey(parts[1]), tag: parts[2]}, true
}

// attemptTag is how an attempt's name says which instance it was begun for.
func attemptTag(instance string) string {
	sum := sha256.Sum256([]byte(instance))
	return hex.EncodeToString(sum[:8])
}

// withoutUser gives a URL without the credentials in it, which must not decide about names.
func withoutUser(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	u.User = nil
	return u.String()
}

// shownURL gives a URL as it may be shown: no credentials, no query, which may hold a signature.
func shownURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "(a URL that does not parse)"
	}
	return clip((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String())
}
