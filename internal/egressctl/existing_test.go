package egressctl_test

import (
	"path/filepath"
	"strings"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/probe"
)

// withExisting gives the desk one entry, racks, of one proxy that exists already.
func (d *desk) withExisting() *desk {
	d.write("leases/endpoints/.keep", "") // no lease, and in nobody's way
	d.write("providers.yaml", "checkURL: "+checkURL+`
providers:
- name: racks
  type: static
  static:
    leaseDirectory: `+filepath.Join(d.dir, "leases")+`
    endpoints:
    - {name: berlin-1, zone: berlin, address: 198.18.7.1, port: 8080}
`)
	d.env["EGRESSCTL_PASSWORD"] = "open sesame"
	return d
}

func TestCreate_leasesAnExistingProxy(t *testing.T) {
	d := newDesk(t).withExisting()
	var asked []probe.Options
	answer := d.probe
	d.probe = func(o probe.Options) (probe.Result, error) {
		asked = append(asked, o)
		return answer(o)
	}
	for range 2 { // the second goes on with what there is
		e := d.must("create", "one", "--auth-user", "alice")
		if !strings.Contains(e.out, "http://alice@198.18.7.1:8080") {
			t.Errorf("create prints no URL with the endpoint's own port:\n%s", e.out)
		}
	}
	for _, o := range asked {
		if o.Endpoint != "198.18.7.1:8080" || o.User != "alice" || o.Password != "open sesame" {
			t.Errorf("the request goes to %s as %q, want the endpoint and the user's own credential", o.Endpoint, o.User)
		}
	}
	if e := d.run("create", "two", "--auth-user", "alice"); e.code != egressctl.CodeQuota {
		t.Errorf("a second lease of the only endpoint ends with %d: %s", e.code, e.err)
	}
	d.must("delete", "one")
	d.must("create", "two", "--auth-user", "alice")
}

func TestCreate_existingProxyRefusesWhatNobodyEnforces(t *testing.T) {
	tests := map[string]struct {
		reason string
		args   []string
		want   string
	}{
		"sources":      {"the proxy has rules of its own", []string{"--auth-user", "alice", "--allow-source", "192.0.2.0/24"}, "--allow-source"},
		"destinations": {"the proxy has rules of its own", []string{"--auth-user", "alice", "--allow-destination", "example.org"}, "--allow-destination"},
		"no user":      {"what the proxy accepts is not known", nil, "--auth-user"},
		"generated":    {"the proxy does not know it", []string{"--auth-user", "alice", "--generate-password"}, "--generate-password"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t).withExisting()
			e := d.run(append([]string{"create", "one"}, tt.args...)...)
			if e.code != egressctl.CodeUsage || !strings.Contains(e.err, tt.want) || !strings.Contains(e.err, "exist already") {
				t.Errorf("%s: ends with %d: %s", tt.reason, e.code, e.err)
			}
		})
	}
}
