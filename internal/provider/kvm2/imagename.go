package kvm2

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
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
// never written to again. The key alone is longer than an instance's name can be, so no instance's
// volume has such a name.
const (
	basePrefix   = "kvm2-base-"
	markerSuffix = ".ok"
)

// imageKey names an image's content.
type imageKey string

var sha256Pattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// keyOf gives the key. An image without a checksum, and without the explicit wish to do without, is
// ErrPermanent.
func keyOf(img provider.KVMImage) (imageKey, error) {
	if img.InsecureSkipChecksum {
		sum := sha256.Sum256([]byte(withoutUser(img.URL)))
		return imageKey("url-" + hex.EncodeToString(sum[:])), nil
	}
	if !sha256Pattern.MatchString(img.SHA256) {
		return "", provider.Errorf(provider.ErrPermanent, provider.ReasonImageInvalid,
			"the image has no sha256 of 64 lower-case hex digits: add it, or say insecureSkipChecksum")
	}
	return imageKey(img.SHA256), nil
}

// marker is the name of the volume that publishes a base of the key.
func (k imageKey) marker() string { return basePrefix + string(k) + markerSuffix }

// newBase gives the name of a base that nobody has used before.
func (k imageKey) newBase(format string) string {
	var attempt [4]byte
	_, _ = rand.Read(attempt[:]) // never fails
	return basePrefix + string(k) + "-" + hex.EncodeToString(attempt[:]) + "." + format
}

// isBase reports whether name is that of a base of the key, by whatever attempt.
func (k imageKey) isBase(name string) bool {
	rest, ok := strings.CutPrefix(name, basePrefix+string(k)+"-")
	return ok && attemptPattern.MatchString(rest)
}

var attemptPattern = regexp.MustCompile(`^[0-9a-f]{8}\.(qcow2|raw)$`)

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
