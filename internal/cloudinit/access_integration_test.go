//go:build integration

package cloudinit_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/cloudinit"
)

const publicAddr = "93.184.216.34"

var (
	nobody   = client{}
	alice    = client{User: "Alice", Password: "s3cret: with a colon"}
	badAlice = client{User: "Alice", Password: "wrong"}
	prober   = client{User: "probe-1", Password: "probing"}
)

func from(source string, c client) client { c.Source = source; return c }

// TestSquid_access asks as different clients, and expects the status.
func TestSquid_access(t *testing.T) {
	startOrigins(t)
	startDNS(t, map[string]answer{"public.test": always(publicAddr), "check.test": always("93.184.216.35")})
	auth := cloudinit.Spec{Hostname: "p1", User: alice.User, PasswordHash: hash(t, alice.Password)}
	sources := cloudinit.Spec{Hostname: "p1", AllowedSources: cidrs(clientAddr + "/32")}
	both := auth
	both.AllowedSources = sources.AllowedSources
	probe := &cloudinit.Probe{User: prober.User, PasswordHash: hash(t, prober.Password), CheckURL: "http://check.test/ip?format=text"}
	withProbe := func(s cloudinit.Spec) cloudinit.Spec { s.Probe = probe; return s }
	tls := *probe
	tls.CheckURL = "https://check.test/ip"
	withTLSProbe := both
	withTLSProbe.Probe = &tls
	named := withProbe(auth)
	named.AllowedDestinations = []string{"other.test"}

	const public, check = "http://public.test/", "http://check.test/ip?format=text"
	type request struct {
		who    client
		method string
		target string
		want   int
	}
	for name, tc := range map[string]struct {
		reason   string
		spec     cloudinit.Spec
		requests map[string]request
	}{
		"Auth": {
			reason: "with auth alone, any source passes with the right password",
			spec:   auth,
			requests: map[string]request{
				"right":              {alice, "GET", public, 200},
				"right, any source":  {from(strangerAddr, alice), "GET", public, 200},
				"right, tunnel":      {alice, "CONNECT", "public.test:443", 200},
				"wrong":              {badAlice, "GET", public, 407},
				"missing":            {nobody, "GET", public, 407},
				"missing, tunnel":    {nobody, "CONNECT", "public.test:443", 407},
				"other case":         {client{User: "alice", Password: alice.Password}, "GET", public, 407},
				"unknown user":       {client{User: "bob", Password: alice.Password}, "GET", public, 407},
				"no probe is set up": {prober, "GET", public, 407},
			},
		},
		"Sources": {
			reason: "with allowedSources alone, the network decides and no password is asked for",
			spec:   sources,
			requests: map[string]request{
				"inside":          {nobody, "GET", public, 200},
				"inside, tunnel":  {nobody, "CONNECT", "public.test:443", 200},
				"outside":         {from(strangerAddr, nobody), "GET", public, 403},
				"outside, tunnel": {from(strangerAddr, nobody), "CONNECT", "public.test:443", 403},
			},
		},
		"Both": {
			reason: "with both, both must hold",
			spec:   both,
			requests: map[string]request{
				"inside, right":   {alice, "GET", public, 200},
				"inside, wrong":   {badAlice, "GET", public, 407},
				"inside, missing": {nobody, "GET", public, 407},
				"outside, right":  {from(strangerAddr, alice), "GET", public, 403},
			},
		},
		"ProbeBesideAuth": {
			reason: "the probe's credential is good for the check URL only",
			spec:   withProbe(auth),
			requests: map[string]request{
				"check":                 {prober, "GET", check, 200},
				"check, any source":     {from(strangerAddr, prober), "GET", check, 200},
				"check, wrong":          {client{User: prober.User, Password: "x"}, "GET", check, 407},
				"other host":            {prober, "GET", "http://public.test/ip?format=text", 403},
				"other path":            {prober, "GET", "http://check.test/other", 403},
				"longer path":           {prober, "GET", check + "x", 403},
				"path with a NUL":       {prober, "GET", check + "%00x", 403},
				"path without query":    {prober, "GET", "http://check.test/ip", 403},
				"dot is no wildcard":    {prober, "GET", "http://check.test/ipXformat=text", 403},
				"other port":            {prober, "GET", "http://check.test:8080/ip?format=text", 403},
				"other method":          {prober, "HEAD", check, 403},
				"tunnel to it":          {prober, "CONNECT", "check.test:80", 403},
				"subdomain":             {prober, "GET", "http://a.check.test/ip?format=text", 403},
				"client may ask for it": {alice, "GET", check, 200},
			},
		},
		"ProbeBesideSources": {
			reason: "the probe need not be among the allowed sources",
			spec:   withProbe(sources),
			requests: map[string]request{
				"check":                       {from(strangerAddr, prober), "GET", check, 200},
				"check without a password":    {from(strangerAddr, nobody), "GET", check, 407},
				"check, wrong":                {from(strangerAddr, client{User: prober.User, Password: "x"}), "GET", check, 407},
				"other URL":                   {from(strangerAddr, prober), "GET", public, 403},
				"client needs no password":    {nobody, "GET", public, 200},
				"client may ask for it":       {nobody, "GET", check, 200},
				"stranger without a password": {from(strangerAddr, nobody), "GET", public, 403},
			},
		},
		"ProbeBesideBoth": {
			reason: "for https the probe may only tunnel to the check's host and port",
			spec:   withTLSProbe,
			requests: map[string]request{
				"check":             {from(strangerAddr, prober), "CONNECT", "check.test:443", 200},
				"other port":        {prober, "CONNECT", "check.test:80", 403},
				"other host":        {prober, "CONNECT", "public.test:443", 403},
				"plain":             {prober, "GET", "http://check.test/ip", 403},
				"stranger, right":   {from(strangerAddr, alice), "GET", public, 403},
				"client":            {alice, "GET", public, 200},
				"client, no tunnel": {from(strangerAddr, alice), "CONNECT", "public.test:443", 403},
			},
		},
		"ProbeBesideNames": {
			reason: "the check passes although its host is not among the allowed destinations, for the probe only",
			spec:   named,
			requests: map[string]request{
				"check":        {prober, "GET", check, 200},
				"client":       {alice, "GET", check, 407},
				"other client": {alice, "GET", public, 403},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := startProxy(t, tc.spec)
			for name, r := range tc.requests {
				if diff := cmp.Diff(r.want, p.ask(t, r.who, r.method, r.target, "Connection: close").Status); diff != "" {
					t.Errorf("%s (%s): status -want, +got:\n%s", name, tc.reason, diff)
				}
			}
		})
	}
}
