package kvm2

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// maxCredentialFile is more than any key or known_hosts file of this use needs.
const maxCredentialFile = 1 << 20

// readCredential reads a key or known_hosts file. One that is not there, or not readable, is
// ErrTransient: the Secret that it is mounted from may still come.
func readCredential(what, path string) ([]byte, error) {
	unavailable := func(err error) error {
		return provider.Errorf(provider.ErrTransient, provider.ReasonCredentialsUnavailable,
			"%s cannot be read; check that its Secret exists and is mounted: %w", what, err)
	}
	if path == "" {
		return nil, provider.Errorf(provider.ErrPermanent, provider.ReasonCredentialsInvalid,
			"%s is not configured", what)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, unavailable(err)
	}
	defer func() { _ = f.Close() }() // only read from
	data, err := io.ReadAll(io.LimitReader(f, maxCredentialFile+1))
	if err != nil {
		return nil, unavailable(err)
	}
	if len(data) > maxCredentialFile {
		return nil, provider.Errorf(provider.ErrPermanent, provider.ReasonCredentialsInvalid,
			"%s %s is larger than 1 MiB", what, path)
	}
	return data, nil
}

// readKey reads the private key. A key that does not parse is ErrPermanent, with a sentence that says
// which damage it looks like. Neither the key nor the parser's own words, which may quote it, are
// part of any error.
func readKey(path string) (ssh.Signer, error) {
	data, err := readCredential("sshKeyFile", path)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.ParsePrivateKey(data)
	if err == nil {
		return signer, nil
	}
	damage := keyDamage(data)
	var encrypted *ssh.PassphraseMissingError
	if errors.As(err, &encrypted) {
		damage = "is encrypted with a passphrase, which nobody is here to type; use a key without one"
	}
	return nil, provider.Errorf(provider.ErrPermanent, provider.ReasonCredentialsInvalid,
		"sshKeyFile %s %s", path, damage)
}

var (
	utf8BOM  = []byte("\xef\xbb\xbf")
	pemBegin = []byte("-----BEGIN ")
	pemEnd   = []byte("-----END ")
)

// keyDamage says what is wrong with a private key that did not parse, as the end of a sentence.
// The cases are those that Secrets, shells and templates make of a good key.
func keyDamage(data []byte) string {
	trimmed := bytes.TrimSpace(data)
	switch {
	case len(trimmed) == 0:
		return "is empty"
	case bytes.HasPrefix(data, utf8BOM):
		return "starts with a byte order mark; save it as UTF-8 without one"
	case !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0:
		return "is not text; it may be UTF-16 or a binary key format"
	case isPublicKey(trimmed):
		return "holds a public key; the private key is the file without .pub"
	case bytes.HasPrefix(trimmed, []byte("PuTTY-User-Key-File")):
		return "is a PuTTY key; export it in OpenSSH format"
	case isBase64Of(trimmed, pemBegin):
		return "is base64 of a private key; the Secret's value was encoded twice"
	case !bytes.Contains(data, pemBegin):
		return "does not hold a private key: there is no BEGIN line"
	case bytes.Contains(data, []byte(`\n`)):
		return `has the two characters \n where its lines should end`
	case !bytes.Contains(data, pemEnd):
		return "is cut off: there is no END line"
	case bytes.Count(trimmed, []byte("\n")) < 2:
		return "has all its lines joined into one"
	case isIndented(data):
		return "has spaces before its lines, as an indented YAML block leaves them"
	}
	return pemDamage(data)
}

// pemDamage names what a PEM file holds that is no usable private key.
func pemDamage(data []byte) string {
	block, _ := pem.Decode(data)
	switch {
	case block == nil:
		return "has a damaged body between its BEGIN and END lines"
	case !bytes.HasSuffix([]byte(block.Type), []byte("PRIVATE KEY")):
		return fmt.Sprintf("holds a PEM block of type %.40q, not a private key", block.Type)
	}
	return "holds a private key whose content is damaged or of a kind that SSH does not use"
}

func isPublicKey(data []byte) bool {
	if bytes.HasPrefix(data, []byte("---- BEGIN SSH2 PUBLIC KEY")) ||
		bytes.HasPrefix(data, []byte("-----BEGIN PUBLIC KEY")) ||
		bytes.HasPrefix(data, []byte("-----BEGIN RSA PUBLIC KEY")) {
		return true
	}
	_, _, _, _, err := ssh.ParseAuthorizedKey(data)
	return err == nil
}

// isBase64Of tells whether text is base64 of something that starts with prefix. Line breaks in
// it do not matter.
func isBase64Of(text, prefix []byte) bool {
	joined := bytes.Join(bytes.Fields(text), nil)
	decoded := make([]byte, base64.StdEncoding.DecodedLen(len(joined)))
	n, err := base64.StdEncoding.Decode(decoded, joined)
	return err == nil && bytes.HasPrefix(bytes.TrimSpace(decoded[:n]), prefix)
}

func isIndented(data []byte) bool {
	for line := range bytes.Lines(data) {
		rest := bytes.TrimLeft(line, " \t")
		if len(rest) < len(line) && len(bytes.TrimSpace(rest)) > 0 {
			return true
		}
	}
	return false
}
