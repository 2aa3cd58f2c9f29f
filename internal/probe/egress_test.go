package probe_test

import (
	"net/netip"
	"strings"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/probe"
)

// TestRequest_egressIP gives the address that an answer names.
func TestRequest_egressIP(t *testing.T) {
	r := &relay{}
	endpoint := listen(t, r.handle)
	for body, want := range map[string]string{
		"192.0.2.7":                              "192.0.2.7",
		"  192.0.2.7\r\n":                        "192.0.2.7",
		"2001:DB8::7\n":                          "2001:db8::7",
		"::ffff:192.0.2.7":                       "192.0.2.7",
		`{"ip":"192.0.2.7"}`:                     "192.0.2.7",
		`{"origin": "192.0.2.7, 10.0.0.1"}`:      "192.0.2.7",
		`{"address":"192.0.2.7","method":1}`:     "192.0.2.7",
		`{"ip_addr":"2001:db8::7"}`:              "2001:db8::7",
		`{"status":"success","query":"1.2.3.4"}`: "1.2.3.4",
		`{"ip":7,"address":"192.0.2.7"}`:         "192.0.2.7",
		"fl=1\nip=192.0.2.7\nts=1\n":             "192.0.2.7",
		`{"ip":"192.0.2.7"} trailing`:            "192.0.2.7",
		"":                                       "",
		"<html>192.0.2.7</html>":                 "",
		`{"ip":"nonsense"}`:                      "",
		`{"ip":`:                                 "",
		`{"ip":{"ip":"192.0.2.7"}}`:              "",
		`["192.0.2.7"]`:                          "",
		"fe80::1%eth0":                           "",
		strings.Repeat("[", 60000):               "",
		strings.Repeat(`{"a":`, 10000):           "",
	} {
		o := origin(t, 200, body)
		got, err := probe.Request(t.Context(), probe.Options{Endpoint: endpoint, CheckURL: o.URL})
		if err != nil {
			t.Errorf("%.40q: %v, want an answer to pass whatever its body is", body, err)
			continue
		}
		var wantAddr netip.Addr
		if want != "" {
			wantAddr = netip.MustParseAddr(want)
		}
		if got.EgressIP != wantAddr {
			t.Errorf("%.40q: got %s, want %s", body, got.EgressIP, wantAddr)
		}
	}
}
