// Package probe asks for one URL through a proxy, to learn whether requests really pass, and from which
// address. The proxy and whoever stands behind it may be anything: nothing that they send, or fail to
// send, makes a request last longer than its timeout or take more than a fixed amount of memory.
package probe

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// DefaultTimeout is long enough for a slow machine that resolves, connects and hashes a password.
const DefaultTimeout = 20 * time.Second

// Options say what to ask, and through which proxy.
type Options struct {
	// Endpoint is the proxy's host:port.
	Endpoint string
	// User and Password for the proxy. Both empty: no credential is sent.
	User, Password string
	// CheckURL is asked for with GET: in absolute form for http, through CONNECT for https. With
	// provider.CheckURLNone nothing is asked of anybody but the proxy, and any answer of it passes
	// except a rejected credential.
	CheckURL string
	// RootCAs verify the check URL's certificate. nil: the system's.
	RootCAs *x509.CertPool
	// Timeout of one request, all of it. 0: DefaultTimeout.
	Timeout time.Duration
}

// String leaves out the password.
func (o Options) String() string { return fmt.Sprintf("%s through %s", o.CheckURL, o.Endpoint) }

// GoString is String, for %#v.
func (o Options) GoString() string { return o.String() }

// noneURL is asked for where there is no check URL. Nobody has a name under invalid (RFC 6761).
const noneURL = "http://egress-check.invalid/"

// target is the parsed check URL.
type target struct {
	url *url.URL
	// authority is host:port, for CONNECT and TLS.
	authority string
	none      bool
}

func (o Options) target() (target, error) {
	if _, port, err := net.SplitHostPort(o.Endpoint); err != nil || port == "" {
		// Not repeated: it may be a URL with a password.
		return target{}, newError(ReasonInvalidOptions, "the proxy's endpoint is not host:port", nil)
	}
	t := target{none: o.CheckURL == provider.CheckURLNone}
	text := o.CheckURL
	if t.none {
		text = noneURL
	}
	u, err := url.Parse(text)
	if err != nil || u.User != nil || u.Hostname() == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return target{}, newError(ReasonInvalidOptions, "the check URL is not an http or https URL without user name and password", nil)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return target{}, newError(ReasonInvalidOptions, "the check URL's port is not a number up to 65535", nil)
	}
	t.url, t.authority = u, net.JoinHostPort(u.Hostname(), port)
	return t, nil
}
