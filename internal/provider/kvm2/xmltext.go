package kvm2

import (
	"unicode"
	"unicode/utf8"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// checkText refuses what would not come back unchanged from a trip through XML and libvirt: bytes that
// are not UTF-8, and control characters, which encoding/xml replaces in silence. Everything else is
// escaped, so that no value can add an element.
func checkText(field, value string) error {
	if !utf8.ValidString(value) {
		return provider.Errorf(provider.ErrPermanent, provider.ReasonInvalidRequest, "%s %q is not UTF-8", field, clip(value))
	}
	for _, r := range value {
		if unicode.IsControl(r) || r == utf8.RuneError || r == 0xFFFE || r == 0xFFFF {
			return provider.Errorf(provider.ErrPermanent, provider.ReasonInvalidRequest,
				"%s %q holds a character that XML cannot carry", field, clip(value))
		}
	}
	return nil
}

// checkFilled is checkText for a value that must not be empty.
func checkFilled(field, value string) error {
	if value == "" {
		return provider.Errorf(provider.ErrPermanent, provider.ReasonInvalidRequest, "%s is empty", field)
	}
	return checkText(field, value)
}
