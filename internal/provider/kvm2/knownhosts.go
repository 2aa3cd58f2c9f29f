package kvm2

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// reasonHostCertificateInvalid: the host's certificate is signed by a trusted authority, and is
// expired, not yet valid or made for another name.
const reasonHostCertificateInvalid = "HostCertificateInvalid"

// hostKeys are the host keys that a known_hosts file trusts.
type hostKeys struct {
	db   *knownhosts.HostKeyDB
	file string
	knownHostsText
}

// knownHostsText is a known_hosts file, checked and in one spelling.
type knownHostsText struct {
	// normal has the file's lines, each in its place.
	normal []byte
	// authorities are the numbers of the @cert-authority lines.
	authorities map[int]bool
	// skipped says which lines could not be read. Such lines trust nobody.
	skipped []string
}

// loadHostKeys reads a known_hosts file. A file without entries, or with a line that carries a marker
// and does not parse, is ErrPermanent: a revocation with a typo must not be lost in silence.
func loadHostKeys(path string) (*hostKeys, error) {
	data, err := readCredential("knownHostsFile", path)
	if err != nil {
		return nil, err
	}
	text, err := normalKnownHosts(path, data)
	if err != nil {
		return nil, err
	}
	db, err := parseKnownHosts(text.normal)
	if err != nil {
		return nil, err
	}
	return &hostKeys{db: db, file: path, knownHostsText: text}, nil
}

// parseKnownHosts hands the normalised text to the library, which reads files only, and each twice:
// a private copy also keeps a rotation between the two from mattering.
func parseKnownHosts(text []byte) (*knownhosts.HostKeyDB, error) {
	unavailable := func(err error) error {
		return provider.Errorf(provider.ErrTransient, provider.ReasonCredentialsUnavailable,
			"knownHostsFile cannot be copied to a temporary file: %w", err)
	}
	f, err := os.CreateTemp("", "kvm2-known-hosts-")
	if err != nil {
		return nil, unavailable(err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // nothing secret in it
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, unavailable(err)
	}
	db, err := knownhosts.NewDB(f.Name())
	if err != nil {
		return nil, unavailable(err)
	}
	return db, nil
}

// normalKnownHosts brings a known_hosts file into the spelling that endpoint uses, line by line, so
// that letter case, a trailing dot and the long forms of IPv6 do not make a host unknown.
func normalKnownHosts(path string, data []byte) (knownHostsText, error) {
	invalid := func(format string, args ...any) (knownHostsText, error) {
		return knownHostsText{}, provider.Errorf(provider.ErrPermanent, provider.ReasonCredentialsInvalid,
			"knownHostsFile %s "+format, append([]any{path}, args...)...)
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return invalid("is not UTF-8 text; it may be UTF-16")
	}
	text := knownHostsText{authorities: map[int]bool{}}
	entries := 0
	var out bytes.Buffer
	for i, line := range bytes.Split(bytes.TrimPrefix(data, utf8BOM), []byte("\n")) {
		line = bytes.Trim(line, " \t\r")
		if len(line) == 0 || line[0] == '#' {
			out.WriteByte('\n')
			continue
		}
		fixed, marker, err := normalLine(line)
		switch {
		case err == nil:
			entries++
			text.authorities[i+1] = marker == markerAuthority
			out.Write(fixed)
		case line[0] == '@':
			return invalid("line %d carries a marker and cannot be read: %w", i+1, err)
		default:
			text.skipped = append(text.skipped, fmt.Sprintf("line %d (%v)", i+1, err))
		}
		out.WriteByte('\n')
	}
	switch {
	case entries == 0 && len(text.skipped) > 0:
		return invalid("has no usable entry: %s", strings.Join(text.skipped, ", "))
	case entries == 0:
		return invalid("has no entries; add the host's line, as ssh-keyscan prints it")
	}
	text.normal = out.Bytes()
	return text, nil
}

// Markers of known_hosts lines, without their @.
const (
	markerAuthority = "cert-authority"
	markerRevoked   = "revoked"
)

// maxKnownHostsLine is less than the longest line that the library's scanner takes.
const maxKnownHostsLine = 32 << 10

// normalLine checks one line and spells its host patterns as endpoint does.
func normalLine(line []byte) (fixed []byte, marker string, err error) {
	if len(line) > maxKnownHostsLine {
		return nil, "", errors.New("longer than 32 KiB")
	}
	marker, _, _, _, _, err = ssh.ParseKnownHosts(line)
	if err != nil {
		return nil, "", errors.New("not of the form: hosts, key type, key")
	}
	fields := bytes.Fields(line)
	hosts := 0
	switch marker {
	case "":
	case markerAuthority, markerRevoked:
		hosts = 1
	default:
		return nil, "", fmt.Errorf("unknown marker @%.40s", marker)
	}
	patterns := strings.Split(string(fields[hosts]), ",")
	for i, p := range patterns {
		if patterns[i], err = normalPattern(p); err != nil {
			return nil, "", err
		}
	}
	fields[hosts] = []byte(strings.Join(patterns, ","))
	return bytes.Join(fields, []byte(" ")), marker, nil
}

// normalPattern spells one host pattern. Hashed ones stay: OpenSSH hashes the lower-case name.
func normalPattern(pattern string) (string, error) {
	if strings.HasPrefix(pattern, "|") {
		return pattern, checkHash(pattern)
	}
	negated, name := "", pattern
	if rest, ok := strings.CutPrefix(pattern, "!"); ok {
		negated, name = "!", rest
	}
	if name == "" || name[0] == '@' {
		return "", errors.New("an empty host pattern, or a marker in its place")
	}
	if name[0] != '[' {
		return negated + normalHost(name), nil
	}
	host, port, err := net.SplitHostPort(name)
	if err != nil || port == "" {
		return "", errors.New("a host in brackets needs a port, as in [host]:port")
	}
	return negated + "[" + normalHost(host) + "]:" + port, nil
}

// checkHash checks the form |1|salt|hash.
func checkHash(pattern string) error {
	parts := strings.Split(pattern, "|")
	if len(parts) != 4 || parts[1] != "1" {
		return errors.New("not a hash of the form |1|salt|hash")
	}
	for _, part := range parts[2:] {
		if _, err := base64.StdEncoding.DecodeString(part); err != nil {
			return errors.New("a hash that is not base64")
		}
	}
	return nil
}

// algorithms gives the host key algorithms to offer for an address: first those that the file can
// verify, so that a server with several keys shows one that is known, then the others, so that a
// server without any of those still shows a key that can be named. Signatures over SHA-1 are out.
func (k *hostKeys) algorithms(address string) []string {
	supported := ssh.SupportedAlgorithms().HostKeys
	var offer []string
	for _, algo := range k.db.HostKeyAlgorithms(address) {
		if slices.Contains(supported, algo) {
			offer = append(offer, algo)
		}
	}
	for _, algo := range supported {
		if !strings.Contains(algo, "-cert-") && !slices.Contains(offer, algo) {
			offer = append(offer, algo)
		}
	}
	return offer
}

// check is the host key callback for the configured host. All its errors are ErrPermanent.
func (k *hostKeys) check(host provider.KVMHost) ssh.HostKeyCallback {
	return func(address string, remote net.Addr, key ssh.PublicKey) error {
		err := k.db.HostKeyCallback()(address, remote, key)
		if err == nil {
			return nil
		}
		return k.rejection(host, address, key, err)
	}
}

func (k *hostKeys) rejection(host provider.KVMHost, address string, key ssh.PublicKey, err error) error {
	entry := xknownhosts.Normalize(address)
	seen := key
	cert, isCert := key.(*ssh.Certificate)
	if isCert {
		seen = cert.Key
	}
	shown := fmt.Sprintf("host %s (%s) showed the %s key %s", host.Name, address, seen.Type(), ssh.FingerprintSHA256(seen))
	reject := func(reason, format string, args ...any) error {
		return provider.Errorf(provider.ErrPermanent, reason, "%s, "+format, append([]any{shown}, args...)...)
	}
	var revoked *xknownhosts.RevokedError
	var unequal *xknownhosts.KeyError
	switch {
	case errors.As(err, &revoked):
		return reject(provider.ReasonHostKeyRevoked, "which %s revokes in line %d", k.file, revoked.Revoked.Line)
	case errors.As(err, &unequal) && len(unequal.Want) > 0 && k.onlyAuthorities(unequal.Want):
		return reject(provider.ReasonHostKeyMismatch,
			"and no certificate, but for %s %s trusts only certificates of the authority in %s",
			entry, k.file, wantedLines(unequal.Want))
	case errors.As(err, &unequal) && len(unequal.Want) > 0:
		return reject(provider.ReasonHostKeyMismatch,
			"and %s has another for %s in %s; if the host's key was changed on purpose, replace that line, else "+
				"somebody may be in between", k.file, entry, wantedLines(unequal.Want))
	case isCert && strings.Contains(err.Error(), "revoked"):
		return reject(provider.ReasonHostKeyRevoked, "whose certificate or authority %s revokes", k.file)
	case isCert && !strings.Contains(err.Error(), "no authorities"):
		return reject(reasonHostCertificateInvalid, "with a certificate that cannot be accepted: %s", clip(err.Error()))
	}
	return reject(provider.ReasonHostKeyUnknown, "and %s has no entry for it; an entry for %s is needed%s",
		k.file, entry, k.skippedNote())
}

func (k *hostKeys) onlyAuthorities(want []xknownhosts.KnownKey) bool {
	return !slices.ContainsFunc(want, func(w xknownhosts.KnownKey) bool { return !k.authorities[w.Line] })
}

func (k *hostKeys) skippedNote() string {
	if len(k.skipped) == 0 {
		return ""
	}
	return "; unreadable there: " + strings.Join(k.skipped, ", ")
}

// wantedLines names the lines of the file that a host's key was compared with.
func wantedLines(want []xknownhosts.KnownKey) string {
	lines := make([]string, 0, len(want))
	for _, w := range want {
		lines = append(lines, fmt.Sprintf("line %d (%s)", w.Line, w.Key.Type()))
	}
	return strings.Join(lines, ", ")
}
