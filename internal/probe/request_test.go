package probe_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/probe"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// credential is base64 of "u:p".
const credential = "Basic dTpw"

var (
	compareAddr = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	noLatency   = cmpopts.IgnoreFields(probe.Result{}, "Latency")
)

func pool(s *httptest.Server) *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(s.Certificate())
	return p
}

func TestRequest_plain(t *testing.T) {
	r := &relay{credential: credential}
	o := origin(t, 200, "192.0.2.7\n")
	got, err := probe.Request(t.Context(), probe.Options{Endpoint: listen(t, r.handle), User: "u", Password: "p", CheckURL: o.URL + "/ip?x=1"})
	if err != nil {
		t.Fatal(err)
	}
	want := probe.Result{Status: 200, EgressIP: netip.MustParseAddr("192.0.2.7"), ProxyAnswered: true}
	if diff := cmp.Diff(want, got, noLatency, compareAddr); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if got.Latency <= 0 {
		t.Errorf("latency %s, want it measured", got.Latency)
	}
	wantAsked := []asked{{Method: "GET", Target: o.URL + "/ip?x=1", Credential: credential}}
	if diff := cmp.Diff(wantAsked, r.requests(), cmpopts.IgnoreFields(asked{}, "Header")); diff != "" {
		t.Errorf("the proxy was asked -want, +got:\n%s", diff)
	}
}

func TestRequest_tunnel(t *testing.T) {
	r := &relay{credential: credential}
	o := tlsOrigin(t, 200, `{"origin": "192.0.2.7"}`)
	got, err := probe.Request(t.Context(), probe.Options{Endpoint: listen(t, r.handle), User: "u", Password: "p", CheckURL: o.URL + "/ip", RootCAs: pool(o)})
	if err != nil {
		t.Fatal(err)
	}
	want := probe.Result{Status: 200, EgressIP: netip.MustParseAddr("192.0.2.7"), ProxyAnswered: true}
	if diff := cmp.Diff(want, got, noLatency, compareAddr); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	wantAsked := []asked{{Method: "CONNECT", Target: strings.TrimPrefix(o.URL, "https://"), Credential: credential}}
	if diff := cmp.Diff(wantAsked, r.requests(), cmpopts.IgnoreFields(asked{}, "Header")); diff != "" {
		t.Errorf("the proxy was asked -want, +got:\n%s", diff)
	}
}

func TestRequest_withoutCredentialSendsNone(t *testing.T) {
	r := &relay{}
	o := origin(t, 204, "")
	if _, err := probe.Request(t.Context(), probe.Options{Endpoint: listen(t, r.handle), CheckURL: o.URL}); err != nil {
		t.Fatal(err)
	}
	if got := r.requests()[0].Credential; got != "" {
		t.Errorf("sent %q, want no Proxy-Authorization", got)
	}
}

func TestRequest_ignoresTheEnvironmentsProxy(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	r := &relay{}
	o := origin(t, 200, "")
	if _, err := probe.Request(t.Context(), probe.Options{Endpoint: listen(t, r.handle), CheckURL: o.URL}); err != nil {
		t.Errorf("got %v, want the request to go through the endpoint", err)
	}
}

// TestRequest_reasons looks at what each failure is called, and whether the proxy counts as serving.
func TestRequest_reasons(t *testing.T) {
	closed := func(t *testing.T) string {
		t.Helper()
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		return l.Addr().String()
	}
	through := func(r *relay) func(*testing.T) string {
		return func(t *testing.T) string {
			t.Helper()
			return listen(t, r.handle)
		}
	}
	answers := func(text string) func(*testing.T) string {
		return func(t *testing.T) string {
			t.Helper()
			return listen(t, says(text))
		}
	}
	plain := func(status int) func(*testing.T) (string, *x509.CertPool) {
		return func(t *testing.T) (string, *x509.CertPool) {
			t.Helper()
			return origin(t, status, "").URL, nil
		}
	}
	secure := func(status int) func(*testing.T) (string, *x509.CertPool) {
		return func(t *testing.T) (string, *x509.CertPool) {
			t.Helper()
			o := tlsOrigin(t, status, "")
			return o.URL, pool(o)
		}
	}
	untrusted := func(t *testing.T) (string, *x509.CertPool) {
		t.Helper()
		return tlsOrigin(t, 200, "").URL, x509.NewCertPool()
	}
	withoutTLS := func(t *testing.T) (string, *x509.CertPool) {
		t.Helper()
		return strings.Replace(origin(t, 200, "").URL, "http", "https", 1), nil
	}
	url := func(u string) func(*testing.T) (string, *x509.CertPool) {
		return func(*testing.T) (string, *x509.CertPool) { return u, nil }
	}
	for name, tc := range map[string]struct {
		reason string
		proxy  func(*testing.T) string
		check  func(*testing.T) (string, *x509.CertPool)
		want   probe.Reason
		result probe.Result
	}{
		"NothingListens":     {"no proxy yet", closed, plain(200), probe.ReasonProxyUnreachable, probe.Result{}},
		"Rejected":           {"407 is about the credential", through(&relay{credential: "Basic other"}), plain(200), probe.ReasonProxyAuthRejected, probe.Result{Status: 407}},
		"RejectedTunnel":     {"407 is about the credential", through(&relay{credential: "Basic other"}), secure(200), probe.ReasonProxyAuthRejected, probe.Result{}},
		"DeniedBySquid":      {"squid marks its own 403", answers("HTTP/1.1 403 Forbidden\r\nX-Squid-Error: ERR_ACCESS_DENIED 0\r\n\r\n"), plain(200), probe.ReasonProxyDenied, probe.Result{Status: 403}},
		"DeniedTunnel":       {"a tunnel's 403 is the proxy's", answers("HTTP/1.1 403 Forbidden\r\n\r\n"), secure(200), probe.ReasonProxyDenied, probe.Result{}},
		"ForbiddenByOrigin":  {"an unmarked 403 is the other end's: the proxy serves", through(&relay{}), plain(403), probe.ReasonCheckURLFailed, probe.Result{Status: 403, ProxyAnswered: true}},
		"OriginDown":         {"the proxy took the credential and found nobody", through(&relay{}), url("http://127.0.0.1:1/"), probe.ReasonCheckURLUnreachable, probe.Result{Status: 503, ProxyAnswered: true}},
		"OriginDownTunnel":   {"the proxy took the credential and found nobody", through(&relay{}), url("https://127.0.0.1:1/"), probe.ReasonCheckURLUnreachable, probe.Result{ProxyAnswered: true}},
		"OriginFails":        {"the other end's own failure", through(&relay{}), plain(503), probe.ReasonCheckURLFailed, probe.Result{Status: 503, ProxyAnswered: true}},
		"OriginFailsTunnel":  {"the other end's own failure", through(&relay{}), secure(500), probe.ReasonCheckURLFailed, probe.Result{Status: 500, ProxyAnswered: true}},
		"Redirect":           {"a redirect is not followed: the credential is good for one URL", through(&relay{}), plain(302), probe.ReasonCheckURLFailed, probe.Result{Status: 302, ProxyAnswered: true}},
		"UnknownAuthority":   {"without its root the certificate does not verify", through(&relay{}), untrusted, probe.ReasonCheckURLFailed, probe.Result{ProxyAnswered: true}},
		"NoTLS":              {"https from a server that speaks http", through(&relay{}), withoutTLS, probe.ReasonCheckURLFailed, probe.Result{ProxyAnswered: true}},
		"NotAProxy":          {"a web server does not know CONNECT", answers("HTTP/1.1 405 Method Not Allowed\r\n\r\n"), secure(200), probe.ReasonProxyInvalidAnswer, probe.Result{}},
		"Redirecting proxy":  {"a captive portal redirects CONNECT", answers("HTTP/1.1 302 Found\r\nLocation: http://portal/\r\n\r\n"), secure(200), probe.ReasonProxyInvalidAnswer, probe.Result{}},
		"None":               {"with no check URL any answer will do", answers("HTTP/1.1 403 Forbidden\r\n\r\n"), url(provider.CheckURLNone), "", probe.Result{Status: 403, ProxyAnswered: true}},
		"NoneRejected":       {"but not a rejected credential", through(&relay{credential: "Basic other"}), url(provider.CheckURLNone), probe.ReasonProxyAuthRejected, probe.Result{Status: 407}},
		"NoneGarbage":        {"nor something else than HTTP", answers("SSH-2.0-OpenSSH_9.2\r\n"), url(provider.CheckURLNone), probe.ReasonProxyInvalidAnswer, probe.Result{}},
		"InvalidURL":         {"nothing is sent", closed, url("ftp://x/"), probe.ReasonInvalidOptions, probe.Result{}},
		"URLWithCredentials": {"nothing is sent", closed, url("http://u:p@x/"), probe.ReasonInvalidOptions, probe.Result{}},
		"InvalidPort":        {"nothing is sent", closed, url("http://x:99999/"), probe.ReasonInvalidOptions, probe.Result{}},
		"InvalidEndpoint":    {"nothing is sent", func(*testing.T) string { return "http://u:p@proxy:3128" }, url("http://x/"), probe.ReasonInvalidOptions, probe.Result{}},
	} {
		t.Run(name, func(t *testing.T) {
			check, roots := tc.check(t)
			got, err := probe.Request(t.Context(), probe.Options{Endpoint: tc.proxy(t), User: "u", Password: "p", CheckURL: check, RootCAs: roots, Timeout: time.Minute})
			if diff := cmp.Diff(tc.want, probe.ReasonOf(err)); diff != "" {
				t.Errorf("%s: reason of %v -want, +got:\n%s", tc.reason, err, diff)
			}
			if diff := cmp.Diff(tc.result, got, noLatency, compareAddr); diff != "" {
				t.Errorf("%s: result -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestRequest_noneSendsNoQuestionToOthers(t *testing.T) {
	r := &relay{credential: "Basic x"}
	probe.Request(t.Context(), probe.Options{Endpoint: listen(t, r.handle), CheckURL: provider.CheckURLNone})
	if got := r.requests()[0].Target; !strings.Contains(got, ".invalid/") {
		t.Errorf("asked for %s, want a name that nobody has", got)
	}
}

func TestRequest_cancelReturnsAtOnce(t *testing.T) {
	for name, check := range map[string]string{"Plain": "http://x.test/", "Tunnel": "https://x.test/"} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			endpoint := listen(t, func(conn net.Conn) {
				buf := make([]byte, 1)
				conn.Read(buf) // the request is there
				cancel()
				io.Copy(io.Discard, conn) // until the other end goes
			})
			started := time.Now()
			_, err := probe.Request(ctx, probe.Options{Endpoint: endpoint, CheckURL: check})
			if probe.ReasonOf(err) != probe.ReasonCanceled || !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want reason %s", err, probe.ReasonCanceled)
			}
			if took := time.Since(started); took > probe.DefaultTimeout/2 {
				t.Errorf("returned after %s, want at once", took)
			}
		})
	}
}

func TestRequest_callersDeadlineIsATimeout(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	endpoint := listen(t, func(conn net.Conn) { io.Copy(io.Discard, conn) })
	_, err := probe.Request(ctx, probe.Options{Endpoint: endpoint, CheckURL: "http://x.test/"})
	if probe.ReasonOf(err) != probe.ReasonTimeout || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want reason %s", err, probe.ReasonTimeout)
	}
}

func TestOptions_printNoPassword(t *testing.T) {
	o := probe.Options{Endpoint: "proxy:3128", User: "u", Password: "sentinel", CheckURL: "http://x.test/"}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, o); strings.Contains(text, "sentinel") {
			t.Errorf("%s gives %q, want no password in it", format, text)
		}
	}
}
