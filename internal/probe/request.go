package probe

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// What is read of an answer at most, in bytes.
const (
	maxHeader = 64 << 10
	maxBody   = 64 << 10
)

// Result is what one request showed. It holds what is known beside an error too.
type Result struct {
	// Status of the check URL's answer; with CheckURLNone, of the proxy's. 0: none came.
	Status int
	// EgressIP is the address that the other end saw, where its answer says so; else the zero Addr.
	EgressIP netip.Addr
	// Latency is the whole request's, from the connection's start.
	Latency time.Duration
	// ProxyAnswered: the proxy took our credential, or asked for none. The proxy serves, whatever came of
	// the request.
	ProxyAnswered bool
}

// Request asks once, on a connection of its own. Redirects are not followed, proxies of the
// environment not used. nil means that the check URL answered 2xx through the proxy. Every error is an
// *Error. Request returns when ctx ends or after Options.Timeout, whichever is first.
func Request(ctx context.Context, o Options) (Result, error) {
	t, err := o.target()
	if err != nil {
		return Result{}, err
	}
	timeout := o.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	started := time.Now()
	var r Result
	failure := exchange(within, o, t, &r)
	r.Latency = time.Since(started)
	if failure == nil {
		return r, nil
	}
	return r, explain(within, ctx, r.Latency, failure)
}

// explain tells the caller's end of patience and our own from what the peer did.
func explain(within, caller context.Context, took time.Duration, typed *Error) error {
	switch {
	case errors.Is(caller.Err(), context.Canceled):
		return newError(ReasonCanceled, typed.Message, context.Canceled)
	case typed.Reason == ReasonProxyUnreachable:
		return typed
	case within.Err() != nil: // whatever a read that was cut off looks like
		return newError(ReasonTimeout, fmt.Sprintf("%s within %s", typed.Message, took.Round(time.Millisecond)), context.DeadlineExceeded)
	}
	return typed
}

// exchange does all that touches the network, and fills r on its way.
func exchange(ctx context.Context, o Options, t target, r *Result) *Error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", o.Endpoint)
	if err != nil {
		return newError(ReasonProxyUnreachable, "no connection to the proxy", err)
	}
	defer func() { _ = conn.Close() }() // everything was read, or an error says more
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	if t.url.Scheme == "https" {
		return throughTunnel(ctx, conn, o, t, r)
	}
	return plainly(ctx, conn, o, t, r)
}

// plainly asks the proxy for the URL in absolute form.
func plainly(ctx context.Context, conn net.Conn, o Options, t target, r *Result) *Error {
	req := newGet(ctx, t.url)
	authorize(req, o)
	if err := req.WriteProxy(conn); err != nil {
		return newError(ReasonProxyInvalidAnswer, "the proxy did not take the request", err)
	}
	resp, in, err := readResponse(conn, req)
	if err != nil {
		return newError(ReasonProxyInvalidAnswer, "the proxy gave no valid answer", err)
	}
	defer func() { _ = resp.Body.Close() }() // the connection ends anyway
	r.Status = resp.StatusCode
	if t.none {
		return judgeAlone(resp, o, r)
	}
	if err := judgePlain(resp, r); err != nil {
		return err
	}
	return readAnswer(resp, in, r)
}

// throughTunnel asks for the URL with TLS inside a CONNECT.
func throughTunnel(ctx context.Context, conn net.Conn, o Options, t target, r *Result) *Error {
	connect := &http.Request{
		Method: http.MethodConnect, URL: &url.URL{Opaque: t.authority}, Host: t.authority, Header: http.Header{},
	}
	authorize(connect, o)
	if err := connect.Write(conn); err != nil {
		return newError(ReasonProxyInvalidAnswer, "the proxy did not take the request", err)
	}
	resp, _, err := readResponse(conn, connect)
	if err != nil {
		return newError(ReasonProxyInvalidAnswer, "the proxy gave no valid answer", err)
	}
	_ = resp.Body.Close() // an answer to CONNECT has no body that we want
	if err := judgeConnect(resp, r); err != nil {
		return err
	}
	secure := tls.Client(conn, &tls.Config{RootCAs: o.RootCAs, ServerName: t.url.Hostname(), MinVersion: tls.VersionTLS12})
	if err := secure.HandshakeContext(ctx); err != nil {
		return newError(ReasonCheckURLFailed, "no TLS with the check URL's host", err)
	}
	req := newGet(ctx, t.url)
	if err := req.Write(secure); err != nil {
		return newError(ReasonCheckURLFailed, "the check URL's host did not take the request", err)
	}
	answer, in, err := readResponse(secure, req)
	if err != nil {
		return newError(ReasonCheckURLFailed, "the check URL's host gave no valid answer", err)
	}
	defer func() { _ = answer.Body.Close() }() // the connection ends anyway
	r.Status = answer.StatusCode
	return readAnswer(answer, in, r)
}

func newGet(ctx context.Context, u *url.URL) *http.Request {
	req := (&http.Request{
		Method: http.MethodGet, URL: u, Host: u.Host,
		Header: http.Header{"User-Agent": {"egress-check"}, "Cache-Control": {"no-cache"}, "Accept": {"*/*"}},
		Close:  true,
	})
	return req.WithContext(ctx)
}

func authorize(req *http.Request, o Options) {
	if o.User != "" || o.Password != "" {
		token := base64.StdEncoding.EncodeToString([]byte(o.User + ":" + o.Password))
		req.Header.Set("Proxy-Authorization", "Basic "+token)
	}
}

// readResponse reads a status line and headers of maxHeader bytes at most, and leaves the body to be
// read through the returned reader, which then lets maxBody bytes more pass, with their framing.
func readResponse(conn net.Conn, req *http.Request) (*http.Response, *io.LimitedReader, error) {
	const interim = 5 // 1xx answers before the real one; net/http's own client allows as many
	in := &io.LimitedReader{R: conn, N: maxHeader}
	buffered := bufio.NewReader(in)
	for range interim {
		resp, err := http.ReadResponse(buffered, req)
		if err != nil {
			return nil, nil, err
		}
		if resp.StatusCode >= http.StatusOK {
			return resp, in, nil
		}
		_ = resp.Body.Close() // 1xx has none
	}
	return nil, nil, errors.New("more interim answers than anyone needs")
}

// readAnswer reads the body of the check URL's answer, which must be 2xx.
func readAnswer(resp *http.Response, in *io.LimitedReader, r *Result) *Error {
	if resp.StatusCode/100 != 2 {
		return newError(ReasonCheckURLFailed, fmt.Sprintf("the check URL answered %d, want 2xx without a redirect", resp.StatusCode), nil)
	}
	in.N = 2 * maxBody // chunks of one byte each would be larger: they are cut off
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return newError(ReasonCheckURLFailed, "the check URL's answer broke off", err)
	}
	r.EgressIP = egressIP(body)
	return nil
}

// judgePlain says whether an answer in plain HTTP is the other end's, or the proxy's own.
func judgePlain(resp *http.Response, r *Result) *Error {
	squid, bySquid := strings.CutPrefix(resp.Header.Get("X-Squid-Error"), "ERR_")
	switch {
	case resp.StatusCode == http.StatusProxyAuthRequired:
		return authRejected()
	case bySquid && strings.HasPrefix(squid, "ACCESS_DENIED"):
		return denied()
	case bySquid && resp.StatusCode >= http.StatusInternalServerError:
		r.ProxyAnswered = true
		return unreachable(resp.StatusCode)
	}
	r.ProxyAnswered = true
	return nil
}

// judgeConnect reads the proxy's answer to CONNECT: all but 2xx is its own.
func judgeConnect(resp *http.Response, r *Result) *Error {
	switch {
	case resp.StatusCode/100 == 2:
		r.ProxyAnswered = true
		return nil
	case resp.StatusCode == http.StatusProxyAuthRequired:
		return authRejected()
	case resp.StatusCode == http.StatusForbidden:
		return denied()
	case resp.StatusCode >= http.StatusInternalServerError:
		r.ProxyAnswered = true
		return unreachable(resp.StatusCode)
	}
	return newError(ReasonProxyInvalidAnswer, fmt.Sprintf("the answer to CONNECT was %d, which no proxy gives", resp.StatusCode), nil)
}

// judgeAlone is for proxies of which nothing is asked: any answer will do, unless we had a credential
// and the proxy does not know it.
func judgeAlone(resp *http.Response, o Options, r *Result) *Error {
	if resp.StatusCode == http.StatusProxyAuthRequired && o.User != "" {
		return authRejected()
	}
	r.ProxyAnswered = true
	return nil
}

func authRejected() *Error {
	return newError(ReasonProxyAuthRejected, "the proxy rejected the credential (407)", nil)
}

func denied() *Error {
	return newError(ReasonProxyDenied, "the proxy refuses to ask for the check URL (403): its host may resolve to a "+
		"private address, which allowedPrivateDestinations opens, or the proxy was made for another check URL", nil)
}

func unreachable(status int) *Error {
	return newError(ReasonCheckURLUnreachable, fmt.Sprintf("the proxy could not reach the check URL (%d)", status), nil)
}
