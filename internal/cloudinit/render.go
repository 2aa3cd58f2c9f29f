package cloudinit

import (
	"embed"
	"fmt"
	"net/netip"
	"strings"
	"text/template"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// TunnelPorts and HTTPPorts are the destination ports that clients may ask for: with CONNECT, and with
// plain HTTP. Some clients tunnel plain HTTP too (Node's fetch, web sockets), hence 80 and 8080 in the
// first. The check URL's port is open to the probe whatever it is.
const (
	TunnelPorts = "80 443 8080 8443"
	HTTPPorts   = "80 8000 8080 8888"
)

//go:embed files
var files embed.FS

var templates = template.Must(template.ParseFS(files, "files/*.tmpl"))

// Render gives the user-data: a #cloud-config, the same bytes for the same Spec. It is a secret: it
// holds password hashes. The error is ErrPermanent with ReasonInvalidRequest and names every problem
// of the Spec at once, without a hash.
func Render(s Spec) (provider.Secret, error) {
	p, err := newPlan(s)
	if err != nil {
		return nil, &provider.Error{
			Op: "render cloud-init", Class: provider.ErrPermanent, Reason: provider.ReasonInvalidRequest, Err: err,
		}
	}
	squid, err := p.squidConf()
	if err != nil {
		return nil, err
	}
	guard, err := p.guard()
	if err != nil {
		return nil, err
	}
	return p.userData(squid, guard)
}

func (p plan) squidConf() (string, error) {
	return execute("squid.conf.tmpl", struct {
		plan
		TunnelPorts, HTTPPorts string
	}{p, TunnelPorts, HTTPPorts})
}

func (p plan) guard() (string, error) {
	closed4, closed6 := byFamily(p.Closed)
	_, opened6 := byFamily(p.Opened)
	return execute("guard.nft.tmpl", map[string]string{
		"Closed4": list(closed4), "Closed6": list(closed6), "Opened6": list(opened6),
	})
}

// passwords are the lines of the password file.
func (p plan) passwords() string {
	var b strings.Builder
	if p.User != "" {
		fmt.Fprintf(&b, "%s:%s\n", p.User, p.PasswordHash)
	}
	if p.Check != nil {
		fmt.Fprintf(&b, "%s:%s\n", p.Check.User, p.Check.PasswordHash)
	}
	return b.String()
}

func execute(name string, data any) (string, error) {
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		return "", fmt.Errorf("execute the template %s: %w", name, err)
	}
	return b.String(), nil
}

func list(prefixes []netip.Prefix) string {
	texts := make([]string, len(prefixes))
	for i, p := range prefixes {
		texts[i] = p.String()
	}
	return strings.Join(texts, ", ")
}
