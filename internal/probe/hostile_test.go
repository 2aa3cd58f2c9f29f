package probe_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/probe"
)

// endlessly sends text again and again until the other end goes away.
func endlessly(start, text string) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
			return
		}
		io.WriteString(conn, start)
		chunk := strings.Repeat(text, 1+16384/len(text))
		for {
			if _, err := io.WriteString(conn, chunk); err != nil {
				return
			}
		}
	}
}

// patience is short where a timeout is what is wanted. Elsewhere it is so long that a request that
// needed it would end with the wrong reason, however busy the machine is.
func patience(want probe.Reason) time.Duration {
	if want == probe.ReasonTimeout {
		return 300 * time.Millisecond
	}
	return time.Minute
}

// TestRequest_hostileProxy: whatever a proxy does, the request ends in time and in bounded memory.
func TestRequest_hostileProxy(t *testing.T) {
	silent := func(conn net.Conn) { io.Copy(io.Discard, conn) }
	drip := func(conn net.Conn) {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, err := io.WriteString(conn, "H"); err != nil {
				return
			}
		}
	}
	plain, tunnel := "http://x.test/", "https://x.test/"
	for name, tc := range map[string]struct {
		peer  func(net.Conn)
		check string
		want  probe.Reason // "" where the request passes
	}{
		"Silent":               {silent, plain, probe.ReasonTimeout},
		"SilentTunnel":         {silent, tunnel, probe.ReasonTimeout},
		"SilentNone":           {silent, "none", probe.ReasonTimeout},
		"Drip":                 {drip, plain, probe.ReasonTimeout},
		"ClosesAtOnce":         {func(net.Conn) {}, plain, probe.ReasonProxyInvalidAnswer},
		"ClosesAfterRequest":   {says(""), tunnel, probe.ReasonProxyInvalidAnswer},
		"Garbage":              {says("\x16\x03\x01\x00\x00\r\n\r\n"), plain, probe.ReasonProxyInvalidAnswer},
		"GarbageTunnel":        {says("SSH-2.0-OpenSSH_9.2\r\n"), tunnel, probe.ReasonProxyInvalidAnswer},
		"EndlessStatusLine":    {endlessly("HTTP/1.1 200 ", "a"), plain, probe.ReasonProxyInvalidAnswer},
		"EndlessHeaders":       {endlessly("HTTP/1.1 200 OK\r\n", "X-A: b\r\n"), plain, probe.ReasonProxyInvalidAnswer},
		"EndlessHeadersTunnel": {endlessly("HTTP/1.1 200 OK\r\n", "X-A: b\r\n"), tunnel, probe.ReasonProxyInvalidAnswer},
		"EndlessInterim":       {endlessly("", "HTTP/1.1 100 Continue\r\n\r\n"), plain, probe.ReasonProxyInvalidAnswer},
		"EndlessNewlines":      {endlessly("", "\r\n"), plain, probe.ReasonProxyInvalidAnswer},
		"EndlessBody":          {endlessly("HTTP/1.1 200 OK\r\n\r\n", "a"), plain, ""},
		"EndlessChunks":        {endlessly("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\na\r\n"), plain, probe.ReasonCheckURLFailed},
		"EndlessChunkHeader":   {endlessly("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "0"), plain, probe.ReasonCheckURLFailed},
		"HugeContentLength":    {endlessly("HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n", "a"), plain, ""},
		"BodyStops":            {says("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"), plain, probe.ReasonCheckURLFailed},
		"EndlessBodyOf407":     {endlessly("HTTP/1.1 407 No\r\n\r\n", "a"), plain, probe.ReasonProxyAuthRejected},
		"EndlessBodyOf503":     {endlessly("HTTP/1.1 503 No\r\n\r\n", "a"), tunnel, probe.ReasonCheckURLUnreachable},
		"GarbageInTunnel":      {endlessly("HTTP/1.1 200 OK\r\n\r\n", "a"), tunnel, probe.ReasonCheckURLFailed},
		"SilentInTunnel": {func(conn net.Conn) {
			says("HTTP/1.1 200 OK\r\n\r\n")(conn)
			silent(conn)
		}, tunnel, probe.ReasonTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			endpoint := listen(t, tc.peer)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := probe.Request(t.Context(), probe.Options{
				Endpoint: endpoint, User: "u", Password: "p", CheckURL: tc.check, Timeout: patience(tc.want),
			})
			runtime.ReadMemStats(&after)
			// The peer's own sending is counted too; what it sends is not.
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 8<<20 {
				t.Errorf("allocated %d MiB, want a few at most", grown>>20)
			}
			if got := probe.ReasonOf(err); got != tc.want {
				t.Errorf("got reason %q (%v), want %q", got, err, tc.want)
			}
		})
	}
}

// TestRequest_hostileOrigin does the same behind a well-behaved proxy, inside TLS.
func TestRequest_hostileOrigin(t *testing.T) {
	for name, tc := range map[string]struct {
		peer func(net.Conn)
		want probe.Reason
	}{
		"Silent":         {func(conn net.Conn) { io.Copy(io.Discard, conn) }, probe.ReasonTimeout},
		"EndlessHeaders": {endlessly("HTTP/1.1 200 OK\r\n", "X-A: b\r\n"), probe.ReasonCheckURLFailed},
		"EndlessBody":    {endlessly("HTTP/1.1 200 OK\r\n\r\n", "a"), ""},
		"Garbage":        {says("hello"), probe.ReasonCheckURLFailed},
		"Closes":         {says(""), probe.ReasonCheckURLFailed},
	} {
		t.Run(name, func(t *testing.T) {
			o := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				// The request was read already: the peer gets one that looks like it.
				tc.peer(replaying{conn, strings.NewReader("GET / HTTP/1.1\r\nHost: x\r\n\r\n")})
			}))
			t.Cleanup(o.Close)
			got, err := probe.Request(t.Context(), probe.Options{
				Endpoint: listen(t, (&relay{}).handle), CheckURL: o.URL, RootCAs: pool(o), Timeout: patience(tc.want),
			})
			if reason := probe.ReasonOf(err); reason != tc.want {
				t.Errorf("got reason %q (%v), want %q", reason, err, tc.want)
			}
			if !got.ProxyAnswered {
				t.Error("the proxy does not count as serving, want it to: it opened the tunnel")
			}
		})
	}
}

// replaying is a connection whose first bytes come from elsewhere.
type replaying struct {
	net.Conn
	first *strings.Reader
}

func (r replaying) Read(p []byte) (int, error) {
	if r.first.Len() > 0 {
		return r.first.Read(p)
	}
	return r.Conn.Read(p)
}

// TestRequest_errorsHoldNoCredential: a hostile proxy sends back all that it got, everywhere.
func TestRequest_errorsHoldNoCredential(t *testing.T) {
	const password = "sentinel-password"
	echo := func(prefix, suffix string) func(net.Conn) {
		return func(conn net.Conn) {
			req, err := http.ReadRequest(bufio.NewReader(conn))
			if err != nil {
				return
			}
			io.WriteString(conn, prefix+req.Header.Get("Proxy-Authorization")+" "+password+suffix)
		}
	}
	for name, peer := range map[string]func(net.Conn){
		"Line":        echo("", "\r\n\r\n"),
		"StatusText":  echo("HTTP/1.1 500 ", "\r\n\r\n"),
		"Status":      echo("HTTP/1.1 ", "\r\n\r\n"),
		"HeaderName":  echo("HTTP/1.1 200 OK\r\n", ": x\r\n\r\n"),
		"HeaderLine":  echo("HTTP/1.1 200 OK\r\n", "\r\n\r\n"),
		"SquidError":  echo("HTTP/1.1 403 No\r\nX-Squid-Error: ERR_ACCESS_DENIED ", "\r\n\r\n"),
		"Location":    echo("HTTP/1.1 302 Found\r\nLocation: http://", "/\r\n\r\n"),
		"Encoding":    echo("HTTP/1.1 200 OK\r\nTransfer-Encoding: ", "\r\n\r\n"),
		"Length":      echo("HTTP/1.1 200 OK\r\nContent-Length: ", "\r\n\r\n"),
		"ChunkLength": echo("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "\r\n"),
		"Tunnel":      echo("HTTP/1.1 200 OK\r\n\r\n", "\r\n"),
		"Unreachable": nil,
	} {
		for _, check := range []string{"http://x.test/", "https://x.test/", "none"} {
			endpoint := "127.0.0.1:1"
			if peer != nil {
				endpoint = listen(t, peer)
			}
			_, err := probe.Request(t.Context(), probe.Options{Endpoint: endpoint, User: "user", Password: password, CheckURL: check, Timeout: time.Minute})
			for ; err != nil; err = unwrap(err) {
				for _, secret := range []string{password, "dXNlcjpzZW50aW5lbC1wYXNzd29yZA=="} {
					if strings.Contains(err.Error(), secret) {
						t.Errorf("%s, %s: %q holds the credential", name, check, err)
					}
				}
			}
		}
	}
}

func unwrap(err error) error {
	if u, ok := err.(interface{ Unwrap() error }); ok {
		return u.Unwrap()
	}
	return nil
}
