package kvm2

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// fetch gets a URL to its end.
func fetch(t *testing.T, f *fetcher, rawURL string) ([]byte, error) {
	t.Helper()
	defer f.Close()
	d, err := f.open(t.Context(), rawURL)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(d)
	return data, errors.Join(err, d.Close())
}

// serveBytes answers GET with content, and anything else with 403, as a signed URL does.
func serveBytes(content string, seen *http.Header) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if seen != nil {
			*seen = r.Header.Clone()
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = io.WriteString(w, content) // the client may have left
	}
}

func newServer(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func TestFetch_followsARedirectToSignedStorage(t *testing.T) {
	var seen http.Header
	storage := newServer(t, serveBytes("image", &seen))
	first := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, ok := r.BasicAuth(); !ok || user != "me" || password != "SENTINEL" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.Redirect(w, r, storage.URL+"/object?X-Signature=SIGNED", http.StatusFound)
	}))
	withUser := strings.Replace(first.URL, "http://", "http://me:SENTINEL@", 1) + "/image?token=QUERY"
	data, err := fetch(t, newFetcher(time.Minute), withUser)
	if err != nil || string(data) != "image" {
		t.Fatalf("got %q, %v, want the image", data, err)
	}
	for name, values := range seen {
		if text := fmt.Sprint(values); strings.Contains(text, "SENTINEL") || strings.Contains(text, "QUERY") || name == "Authorization" {
			t.Errorf("the second server was told %s: %s", name, text)
		}
	}
}

func TestFetch_relativeRedirectKeepsTheHost(t *testing.T) {
	s := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/a/latest" {
			w.Header().Set("Location", "../b/image")
			w.WriteHeader(http.StatusFound)
			return
		}
		serveBytes(r.URL.Path, nil)(w, r)
	}))
	if data, err := fetch(t, newFetcher(time.Minute), s.URL+"/a/latest"); err != nil || string(data) != "/b/image" {
		t.Errorf("got %q, %v, want /b/image", data, err)
	}
}

func TestFetch_asksForTheFileAsPublished(t *testing.T) {
	var seen http.Header
	s := newServer(t, serveBytes("image", &seen))
	if _, err := fetch(t, newFetcher(time.Minute), s.URL); err != nil {
		t.Fatal(err)
	}
	if got := seen.Get("Accept-Encoding"); got != "identity" {
		t.Errorf("Accept-Encoding is %q, want identity", got)
	}
}

func TestFetch_refusals(t *testing.T) {
	const secret = "SIGNED"
	hops := func(limit int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			n, _ := strconv.Atoi(r.URL.Query().Get("n"))
			if n == limit {
				serveBytes("image", nil)(w, r)
				return
			}
			http.Redirect(w, r, fmt.Sprintf("/?sig=%s&n=%d", secret, n+1), http.StatusFound)
		}
	}
	redirect := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusFound)
		}
	}
	cases := map[string]struct {
		reason  string
		handler http.HandlerFunc
		class   error
		text    string
	}{
		"ten hops":       {"the limit is passed by the eleventh", hops(10), nil, ""},
		"eleven hops":    {"no mirror needs so many", hops(11), provider.ErrPermanent, "more than 10 times"},
		"loop":           {"it would never end", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.String(), http.StatusFound) }, provider.ErrPermanent, "circle"},
		"another scheme": {"only HTTP is spoken", redirect("ftp://mirror.example.net/x?sig=" + secret), provider.ErrPermanent, "not followed"},
		"no URL":         {"it leads nowhere", redirect("http://[" + secret), provider.ErrTransient, "redirected to something that is no URL"},
		"no location":    {"it leads nowhere", status(http.StatusFound), provider.ErrPermanent, "302 Found"},
		"gzip unasked": {"the checksum is that of the file as published", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write([]byte("image"))
			_ = z.Close()
		}, provider.ErrPermanent, "Content-Encoding gzip"},
		"page": {"status and type tell what it is", status(http.StatusForbidden), provider.ErrPermanent, "403 Forbidden (text/html)"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, tc.handler)
			_, err := fetch(t, newFetcher(time.Minute), s.URL+"/image?sig="+secret)
			if tc.class == nil {
				if err != nil {
					t.Errorf("%s: %v", tc.reason, err)
				}
				return
			}
			wantImageErr(t, err, tc.class, provider.ReasonImageUnavailable, tc.text)
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("the error %q tells the signature", err)
			}
		})
	}
}

func TestFetch_refusesADowngradeToHTTP(t *testing.T) {
	plain := newServer(t, serveBytes("image", nil))
	secure := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	t.Cleanup(secure.Close)
	f := newFetcher(time.Minute)
	f.client.Transport = secure.Client().Transport
	_, err := fetch(t, f, secure.URL)
	wantImageErr(t, err, provider.ErrPermanent, provider.ReasonImageUnavailable, "from https to http")
}

func TestFetch_urlThatIsNotHTTP(t *testing.T) {
	for _, rawURL := range []string{"", "file:///etc/shadow", "ftp://mirror.example.net/x", "image.qcow2", "http://[::1"} {
		_, err := fetch(t, newFetcher(time.Minute), rawURL)
		wantImageErr(t, err, provider.ErrPermanent, provider.ReasonImageUnavailable, "not an http or https URL")
	}
}

func TestFetch_serverThatIsAwayIsTransient(t *testing.T) {
	s := newServer(t, http.NotFoundHandler())
	s.Close()
	_, err := fetch(t, newFetcher(time.Minute), s.URL+"/?sig=SIGNED")
	wantImageErr(t, err, provider.ErrTransient, provider.ReasonImageUnavailable, "connection refused")
	if strings.Contains(err.Error(), "SIGNED") {
		t.Errorf("the error %q tells the signature", err)
	}
}

func TestFetch_silentServerIsGivenUp(t *testing.T) {
	const idle = 50 * time.Millisecond
	quiet := func(say string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if say != "" {
				w.Header().Set("Content-Length", "1000")
				_, _ = io.WriteString(w, say)
				if f, ok := w.(http.Flusher); ok {
					f.Flush()
				}
			}
			<-r.Context().Done()
		}
	}
	for name, say := range map[string]string{"before the headers": "", "in the middle": "some"} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, quiet(say))
			_, err := fetch(t, newFetcher(idle), s.URL)
			wantImageErr(t, err, provider.ErrTransient, provider.ReasonTimeout, "sent nothing")
		})
	}
}

// A slow reader is not the server's fault: the time of an upload that is held up does not count.
func TestFetch_idleCountsTheServersTimeOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body, server := io.Pipe()
		f := newFetcher(time.Minute)
		f.client.Transport = answerWith(body, 3)
		d, err := f.open(t.Context(), "http://mirror.example.net/x")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = server.Write([]byte("abc")) // what goes wrong shows on the reader's side
			_ = server.Close()
		}()
		if _, err := io.ReadFull(d, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		<-time.After(5 * time.Minute) // of the bubble's clock
		if rest, err := io.ReadAll(d); err != nil || string(rest) != "bc" {
			t.Errorf("read %q, %v, want the rest", rest, err)
		}
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// answerWith is a transport whose answer to everything is body, which ends with the request.
func answerWith(body *io.PipeReader, length int64) http.RoundTripper {
	return roundTripFunc(func(req *http.Request) (*http.Response, error) {
		context.AfterFunc(req.Context(), func() { _ = body.CloseWithError(req.Context().Err()) })
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: length, Body: body, Request: req}, nil
	})
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestFetch_cancelUnblocksARead(t *testing.T) {
	s := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.WriteHeader(http.StatusOK)
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		<-r.Context().Done()
	}))
	f := newFetcher(time.Minute)
	defer f.Close()
	ctx, cancel := context.WithCancel(t.Context())
	d, err := f.open(ctx, s.URL)
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		_, err := d.Read(make([]byte, 1))
		result <- err
	}()
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("the read ended with %v, want context.Canceled", err)
	}
	if err := d.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestShownURL_tellsNoSecret(t *testing.T) {
	cases := map[string]string{
		"https://me:pw@mirror.example.net:8443/a/b.qcow2?X-Signature=s#f": "https://mirror.example.net:8443/a/b.qcow2",
		"http://[2001:db8::1]/x":  "http://[2001:db8::1]/x",
		"http://[broken?token=s":  "(a URL that does not parse)",
		"token-without-a-scheme":  "(a URL that does not parse)",
		"https://mirror/a%20b?q=": "https://mirror/a%20b",
	}
	for raw, want := range cases {
		if got := shownURL(raw); got != want {
			t.Errorf("%q is shown as %q, want %q", raw, got, want)
		}
	}
	if _, err := url.Parse(shownURL("https://mirror.example.net/" + strings.Repeat("a", 100_000))); err != nil {
		t.Error(err)
	}
}
