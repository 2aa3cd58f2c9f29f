package cloudinit

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// check is the one request that the probe's credential is good for.
type check struct {
	User, PasswordHash string
	// Method is GET, or CONNECT for https.
	Method string
	// Host is a lower-case name, or an address without brackets.
	Host string
	Port int
	// PathPattern is a POSIX extended regular expression for the path and query. Empty for CONNECT.
	PathPattern string
}

// checkPath are the characters that a check URL's path and query may have. No percent-encoding: squid
// decodes before it compares.
var checkPath = regexp.MustCompile(`^/[A-Za-z0-9._~/=&?,:@!$'()*+;-]*$`)

func parseCheckURL(text string) (check, error) {
	u, err := url.Parse(text)
	if err != nil {
		return check{}, errors.New("not a URL") // url.Error would repeat a password in it
	}
	switch {
	case u.User != nil:
		return check{}, errors.New("it must not have a user name or password")
	case u.Fragment != "" || u.Opaque != "":
		return check{}, errors.New("want http or https, a host and a path, and nothing else")
	case u.Scheme != "http" && u.Scheme != "https":
		return check{}, fmt.Errorf("scheme %q: want http or https", u.Scheme)
	}
	c := check{Method: http.MethodConnect, Port: 443}
	if u.Scheme == "http" {
		c = check{Method: http.MethodGet, Port: 80}
	}
	if c.Host, err = checkHost(u.Hostname()); err != nil {
		return check{}, err
	}
	if port := u.Port(); port != "" {
		if c.Port, err = strconv.Atoi(port); err != nil || c.Port < 1 || c.Port > 65535 {
			return check{}, fmt.Errorf("port %q: want 1 to 65535", port)
		}
	}
	path := u.RequestURI()
	if !checkPath.MatchString(path) {
		return check{}, fmt.Errorf("path and query %q: want letters, digits and . _ ~ / = & ? , : @ ! $ ' ( ) * + ; - without percent-encoding", path)
	}
	if c.Method == http.MethodGet {
		c.PathPattern = literal(path)
	}
	return c, nil
}

func checkHost(host string) (string, error) {
	if addr, err := netip.ParseAddr(host); err == nil && addr.Zone() == "" {
		return addr.Unmap().String(), nil
	}
	name := strings.ToLower(host)
	if !isDomain(name) {
		return "", fmt.Errorf("host %q: want a domain name or an IP address", host)
	}
	return name, nil
}

// literal gives a POSIX extended regular expression that matches text and nothing else.
func literal(text string) string {
	var b strings.Builder
	b.WriteByte('^')
	for _, r := range text {
		if strings.ContainsRune(`.?$()*+`, r) {
			b.WriteString("[" + string(r) + "]")
		} else {
			b.WriteRune(r)
		}
	}
	b.WriteByte('$')
	return b.String()
}
