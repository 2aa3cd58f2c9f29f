package cloudinit

import "net/netip"

// DefaultPort is squid's registered port.
const DefaultPort = 3128

// Spec says what proxy the user-data makes.
type Spec struct {
	// Hostname is the guest's host name and squid's visible_hostname: a DNS name of at most 63 bytes.
	Hostname string
	// Port that the proxy listens on, on every address. 0 means DefaultPort.
	Port int
	// AllowedSources are the clients' networks. Empty means any source; then User must be set. With
	// both, both must hold.
	AllowedSources []netip.Prefix
	// User and PasswordHash (see HashPassword) are what clients must present. Both empty: no
	// authentication.
	User, PasswordHash string
	// AllowedDestinations are domain names, each with its subdomains. Empty means all. With names
	// given, a request for a bare IP address is refused.
	AllowedDestinations []string
	// AllowedPrivateDestinations opens ranges that are closed by default. It never opens loopback,
	// link-local or multicast ranges, the proxy's own addresses, or GuardedDestinations.
	AllowedPrivateDestinations []netip.Prefix
	// GuardedDestinations are never reachable, even inside an allowed range: the hypervisor. Each is a
	// CIDR, an IP address or a host name; the guest resolves host names itself, at start and every
	// five minutes.
	GuardedDestinations []string
	// Probe is the credential of the readiness check. nil where nothing is checked.
	Probe *Probe
	// SSHAuthorizedKeys are lines of authorized_keys for the image's default user.
	SSHAuthorizedKeys []string
}

// Probe is a credential that is good for one URL only, from any source.
type Probe struct {
	// User and PasswordHash as in Spec. User differs from Spec.User.
	User, PasswordHash string
	// CheckURL is the one URL that the credential may GET (http), or the one host and port that it may
	// CONNECT to (https, where the proxy cannot see the path).
	CheckURL string
}
