package kvm2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

const maxRedirects = 10

// errIdle ends a request whose server has gone silent.
var errIdle = errors.New("the server sent nothing for too long")

// fetcher gets images over HTTP.
type fetcher struct {
	client *http.Client
	// idle is how long a server may send nothing.
	idle time.Duration
}

// newFetcher makes a fetcher with connections of its own.
func newFetcher(idle time.Duration) *fetcher {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment}
	if std, ok := http.DefaultTransport.(*http.Transport); ok {
		transport = std.Clone()
	}
	// The checksum is that of the file as published: nothing may unpack it on the way.
	transport.DisableCompression = true
	return &fetcher{client: &http.Client{Transport: transport, CheckRedirect: checkRedirect}, idle: idle}
}

// Close drops connections that are kept for later.
func (f *fetcher) Close() { f.client.CloseIdleConnections() }

// download is the body of one answer: exactly length bytes, or an error. It must be closed.
type download struct {
	length uint64
	body   io.ReadCloser
	cause  func() error // why the request was ended, or nil
	cancel context.CancelCauseFunc
	idle   time.Duration
	timer  *time.Timer
}

// open asks for the image with GET alone: signed URLs allow nothing else. A server that says no, or
// does not say the length, gives ErrPermanent; one that is busy or away ErrTransient. The end of ctx
// unblocks a Read.
func (f *fetcher) open(ctx context.Context, rawURL string) (*download, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	d := &download{
		cancel: cancel, idle: f.idle,
		cause: func() error { return context.Cause(ctx) },
		timer: time.AfterFunc(f.idle, func() { cancel(errIdle) }),
	}
	resp, err := f.get(ctx, rawURL) //nolint:bodyclose // closed by download.close
	d.timer.Stop()
	if err != nil {
		err = d.explain("ask the server for it", err)
		cancel(nil)
		return nil, err
	}
	d.body = resp.Body
	if err := accept(resp); err != nil {
		_ = d.Close() // the refusal is what matters
		return nil, err
	}
	d.length = uint64(resp.ContentLength) //nolint:gosec // accept has checked it
	return d, nil
}

func (f *fetcher) get(ctx context.Context, rawURL string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, rawURL, http.NoBody)
	if err != nil || !isHTTP(req.URL) {
		return nil, provider.Errorf(provider.ErrPermanent, provider.ReasonImageUnavailable, "it is not an http or https URL")
	}
	req.Header.Set("Accept-Encoding", "identity")
	return f.client.Do(req)
}

func isHTTP(u *url.URL) bool { return u.Scheme == "http" || u.Scheme == "https" }

// checkRedirect keeps what the first server may know from the others: credentials, and the signature
// in the query that a Referer would tell.
func checkRedirect(req *http.Request, via []*http.Request) error {
	refuse := func(format string, args ...any) error {
		return provider.Errorf(provider.ErrPermanent, provider.ReasonImageUnavailable, format, args...)
	}
	first, last := via[0].URL, via[len(via)-1].URL
	switch {
	case len(via) > maxRedirects:
		return refuse("it was redirected more than %d times", maxRedirects)
	case slices.ContainsFunc(via, func(r *http.Request) bool { return r.URL.String() == req.URL.String() }):
		return refuse("it is redirected in a circle")
	case !isHTTP(req.URL), last.Scheme == "https" && req.URL.Scheme != "https":
		return refuse("it is redirected from %s to %s, which is not followed", last.Scheme, clip(req.URL.Scheme))
	}
	req.Header.Del("Referer")
	if req.URL.Host != first.Host {
		req.Header.Del("Authorization")
	}
	return nil
}

// accept judges the answer's head.
func accept(resp *http.Response) error {
	kind := clip(resp.Header.Get("Content-Type"))
	refuse := func(class error, format string, args ...any) error {
		return provider.Errorf(class, provider.ReasonImageUnavailable, format, args...)
	}
	switch {
	case isBusy(resp.StatusCode):
		return refuse(provider.ErrTransient, "the server answered %s (%s)", clip(resp.Status), kind)
	case resp.StatusCode != http.StatusOK:
		return refuse(provider.ErrPermanent, "the server answered %s (%s): check the image's url", clip(resp.Status), kind)
	case !slices.Contains([]string{"", "identity"}, resp.Header.Get("Content-Encoding")):
		return refuse(provider.ErrPermanent, "the server sent it with Content-Encoding %s, which was not asked for",
			clip(resp.Header.Get("Content-Encoding")))
	case resp.ContentLength < 0:
		return refuse(provider.ErrPermanent, "the server did not say the length (Content-Length), and a volume cannot be made without it (%s)", kind)
	}
	return nil
}

// isBusy reports whether a status may be another one soon.
func isBusy(status int) bool {
	return status >= 500 || slices.Contains([]int{
		http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
	}, status)
}

// Read implements io.Reader. Only time that is spent waiting for the server counts as idle.
func (d *download) Read(p []byte) (int, error) {
	d.timer.Reset(d.idle)
	n, err := d.body.Read(p)
	d.timer.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		err = d.explain("receive it", err)
	}
	return n, err
}

// Close ends the request. It does not read what is left of the body.
func (d *download) Close() error {
	d.timer.Stop()
	d.cancel(nil)
	return d.body.Close()
}

// explain gives an error of the network its class, and leaves out the URL that net/http puts into it,
// with query and all.
func (d *download) explain(doing string, err error) error {
	var typed *provider.Error
	switch cause := d.cause(); {
	case errors.Is(cause, errIdle):
		return provider.Errorf(provider.ErrTransient, provider.ReasonTimeout, "%s: %w (%v)", doing, errIdle, d.idle)
	case cause != nil:
		return fmt.Errorf("%s: %w", doing, cause)
	case errors.As(err, &typed):
		return provider.Errorf(typed.Class, typed.Reason, "%s: %w", doing, typed)
	}
	return provider.Errorf(provider.ErrTransient, provider.ReasonImageUnavailable, "%s: %w", doing, bare(err))
}

// bare takes net/http's wrapping away, which quotes URLs.
func bare(err error) error {
	var outer *url.Error
	for errors.As(err, &outer) {
		err = outer.Err
	}
	if strings.Contains(err.Error(), "Location header") {
		return errors.New("it was redirected to something that is no URL")
	}
	return err
}
