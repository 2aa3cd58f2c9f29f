package cloudinit

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/crypto/bcrypt"
)

// maxPassword is bcrypt's own limit: it would ignore what follows.
const maxPassword = 72

// HashPassword gives the bcrypt hash of a password of 1 to 72 bytes without control characters. Every
// call salts anew, so a caller that wants the same user-data twice keeps the hash.
func HashPassword(password string) (string, error) {
	switch {
	case password == "":
		return "", errors.New("the password is empty: set one of 1 to 72 bytes")
	case len(password) > maxPassword:
		return "", fmt.Errorf("the password has %d bytes: bcrypt reads %d at most, choose a shorter one", len(password), maxPassword)
	case strings.ContainsFunc(password, unicode.IsControl):
		return "", errors.New("the password has a control character, such as a line break at its end: HTTP cannot carry it")
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
	if err != nil {
		return "", fmt.Errorf("hash the password: %w", err)
	}
	return string(hash), nil
}

// GenerateCredential makes a user name and a password of 128 random bits, for Probe.
func GenerateCredential() (user, password string, err error) {
	return "probe-" + strings.ToLower(rand.Text()[:8]), rand.Text(), nil
}
