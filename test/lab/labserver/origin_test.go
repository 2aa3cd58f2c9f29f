package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOrigin_rootIsTheClientsAddress(t *testing.T) {
	server := httptest.NewServer(originHandler())
	t.Cleanup(server.Close)
	got := get(t.Context(), t, server.URL+"/")
	want := answer{Status: 200, Length: 10, Body: "127.0.0.1\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a script must be able to compare the body with an address: -want, +got:\n%s", diff)
	}
}

func TestOrigin_jsonSaysWhatWasSeen(t *testing.T) {
	recorder := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://origin.lab.test/json", nil)
	request.RemoteAddr = "198.18.0.130:4711"
	request.Header.Set("Via", "1.1 proxy")
	originHandler().ServeHTTP(recorder, request)
	var got seen
	if err := json.Unmarshal(recorder.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := seen{
		Address: "198.18.0.130", Method: "GET", Host: "origin.lab.test", Path: "/json",
		Headers: http.Header{"Via": {"1.1 proxy"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestOrigin_headersShowsWhatAProxyAdded(t *testing.T) {
	recorder := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/headers", nil)
	request.Header.Set("X-Forwarded-For", "10.0.0.1")
	originHandler().ServeHTTP(recorder, request)
	var got http.Header
	if err := json.Unmarshal(recorder.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(http.Header{"X-Forwarded-For": {"10.0.0.1"}}, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestOrigin_otherPathsAreNotFound(t *testing.T) {
	recorder := httptest.NewRecorder()
	originHandler().ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/other", nil))
	if recorder.Code != http.StatusNotFound {
		t.Errorf("GET /other gives %d, expected 404: a wrong address in a test must not look like success", recorder.Code)
	}
}

// What writeCA writes is what a client with ca.pem accepts for the origin's names, and for no others.
func TestWriteCA_clientTrustsOrigin(t *testing.T) {
	dir := t.TempDir()
	if err := writeCA(dir, []string{"origin.lab.test", "198.18.1.10"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(originCertFile(dir), originKeyFile(dir))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(caCertFile(dir))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data) {
		t.Fatal("ca.pem holds no certificate")
	}
	for name, trusted := range map[string]bool{"origin.lab.test": true, "198.18.1.10": true, "example.org": false} {
		_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name})
		if (err == nil) != trusted {
			t.Errorf("verifying the origin's certificate for %s: %v, expected trusted=%v", name, err, trusted)
		}
	}
}

func TestWriteCA_keyIsPrivate(t *testing.T) {
	dir := t.TempDir()
	if err := writeCA(dir, []string{"origin.lab.test"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(originKeyFile(dir))
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("origin.key has mode %o, expected 600", got)
	}
}
