package cloudinit

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Every text that reaches squid.conf, a script or the password file matches one of these: nothing can
// end a line, a token or a quotation there.
var (
	// inet_aton reads 0x7f.1 and 2130706433: what ends in a number is no name.
	number     = regexp.MustCompile(`^([0-9]+|0x[0-9a-f]*)$`)
	hostLabel  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	userName   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}$`)
	bcryptHash = regexp.MustCompile(`^\$2[aby]\$(0[4-9]|1[0-4])\$[./A-Za-z0-9]{53}$`)
)

// problems collects everything that is wrong with a Spec, in the order of its fields.
type problems []error

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

// plan is a Spec that was found good, in the form that the templates need.
type plan struct {
	Hostname     string
	Port         int
	Sources      []netip.Prefix
	User         string
	PasswordHash string
	Domains      []string
	Opened       []netip.Prefix
	Closed       []netip.Prefix
	GuardedNames []string
	Check        *check
	SSHKeys      []string
}

// newPlan validates s. Its error joins every problem; none of their texts holds a hash.
func newPlan(s Spec) (plan, error) {
	var wrong problems
	p := plan{
		Hostname:     s.Hostname,
		Port:         s.Port,
		User:         s.User,
		PasswordHash: s.PasswordHash,
		SSHKeys:      s.SSHAuthorizedKeys,
	}
	if p.Port == 0 {
		p.Port = DefaultPort
	}
	if !isDomain(s.Hostname) || len(s.Hostname) > 63 {
		wrong.add("hostname %q: want a DNS name of lower-case letters, digits and hyphens, 63 bytes at most", s.Hostname)
	}
	if p.Port < 1 || p.Port > 65535 {
		wrong.add("port %d: want 1 to 65535", p.Port)
	}
	p.Sources = wrong.ranges("allowedSources", s.AllowedSources)
	wrong.access(s)
	p.Domains = wrong.domains(s.AllowedDestinations)
	p.Opened = wrong.opened(s.AllowedPrivateDestinations)
	guarded, names := wrong.guarded(s.GuardedDestinations)
	p.GuardedNames = names
	p.Closed = closedRanges(p.Opened, guarded)
	if s.Probe != nil {
		p.Check = wrong.probe(*s.Probe, s.User, p.Closed)
	}
	wrong.sshKeys(s.SSHAuthorizedKeys)
	return p, errors.Join(wrong...)
}

// ranges checks a list of prefixes, and gives it in its normal form.
func (p *problems) ranges(field string, list []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for i, prefix := range list {
		switch {
		case !prefix.IsValid():
			p.add("%s[%d]: not a CIDR", field, i)
		case prefix.Addr().Is4In6():
			p.add("%s[%d] %s: write it as IPv4", field, i, prefix)
		default:
			out = append(out, prefix)
		}
	}
	return normalize(out)
}

// access refuses every way to an open relay.
func (p *problems) access(s Spec) {
	switch {
	case s.User == "" && s.PasswordHash == "":
		if len(s.AllowedSources) == 0 {
			p.add("set auth, allowedSources or both: without either the proxy is an open relay")
		} else if coversFamily(s.AllowedSources) {
			p.add("allowedSources lets every address in, and there is no auth: that is an open relay")
		}
	default:
		p.credential("auth", s.User, s.PasswordHash)
	}
}

func (p *problems) credential(field, user, hash string) {
	if !userName.MatchString(user) || user == "REQUIRED" { // squid's word for "anyone who has a password"
		p.add("%s: user name %q: want 1 to 64 letters, digits and . _ @ + -, a letter or digit first, and not REQUIRED", field, user)
	}
	if !bcryptHash.MatchString(hash) {
		p.add("%s: the password hash is not a bcrypt hash of cost 4 to 14", field)
	}
}

// domains gives the names in lower case, sorted, without those that another one covers: squid refuses
// a list that names a domain twice.
func (p *problems) domains(names []string) []string {
	var all []string
	for i, name := range names {
		lower := strings.ToLower(name)
		switch {
		case strings.HasPrefix(name, ".") || strings.HasPrefix(name, "*"):
			p.add("allowedDestinations[%d] %q: leave out the leading dot or star, a name covers its subdomains", i, name)
		case !isDomain(lower):
			p.add("allowedDestinations[%d] %q: want a domain name (an international one in its xn-- form, no address, no port)", i, name)
		default:
			all = append(all, lower)
		}
	}
	slices.Sort(all)
	var out []string
	for _, name := range slices.Compact(all) {
		covered := func(other string) bool { return strings.HasSuffix(name, "."+other) }
		if !slices.ContainsFunc(all, covered) {
			out = append(out, name)
		}
	}
	return out
}

func (p *problems) opened(list []netip.Prefix) []netip.Prefix {
	out := p.ranges("allowedPrivateDestinations", list)
	for _, prefix := range out {
		if i := slices.IndexFunc(neverOpened, func(never netip.Prefix) bool { return contains(never, prefix) }); i >= 0 {
			p.add("allowedPrivateDestinations %s: it lies in %s, which is never opened", prefix, neverOpened[i])
		}
	}
	return out
}

// guarded sorts the destinations into ranges and names.
func (p *problems) guarded(list []string) (ranges []netip.Prefix, names []string) {
	for i, text := range list {
		if prefix, err := parsePrefix(text); err == nil && !(prefix.Addr().Is4In6()) {
			ranges = append(ranges, prefix)
			continue
		}
		name := strings.TrimSuffix(strings.ToLower(text), ".")
		if !isDomain(name) {
			p.add("guardedDestinations[%d] %q: want a CIDR, an IP address or a host name", i, text)
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return ranges, slices.Compact(names)
}

func (p *problems) probe(probe Probe, client string, closed []netip.Prefix) *check {
	p.credential("probe", probe.User, probe.PasswordHash)
	if probe.User == client {
		p.add("probe: its user name is the clients' too: choose another one")
	}
	c, err := parseCheckURL(probe.CheckURL)
	if err != nil {
		p.add("checkURL: %w", err)
		return nil
	}
	c.User, c.PasswordHash = probe.User, probe.PasswordHash
	addr, err := netip.ParseAddr(c.Host)
	if err == nil && slices.ContainsFunc(closed, func(r netip.Prefix) bool { return r.Contains(addr) }) {
		p.add("checkURL: %s is in a closed range, so the check could never pass: add it to allowedPrivateDestinations", addr)
	}
	return &c
}

func (p *problems) sshKeys(keys []string) {
	for i, key := range keys {
		_, _, _, rest, err := ssh.ParseAuthorizedKey([]byte(key))
		if err != nil || len(rest) > 0 || strings.ContainsAny(key, "\r\n") {
			p.add("sshAuthorizedKeys[%d]: want one line of authorized_keys", i)
		}
	}
}

// isDomain says whether name is a DNS name in lower case, and could not be read as an address.
func isDomain(name string) bool {
	if len(name) > 253 {
		return false
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if !hostLabel.MatchString(label) {
			return false
		}
	}
	return !number.MatchString(labels[len(labels)-1])
}
