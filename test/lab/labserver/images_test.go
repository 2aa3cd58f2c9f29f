package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const body = "0123456789abcdef"

// newImages serves a directory "images" that holds one file, base.qcow2, with body in it.
func newImages(t *testing.T) *httptest.Server {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "base.qcow2"), []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(imagesHandler(dirFlag{"images": dir}))
	t.Cleanup(server.Close)
	return server
}

// answer is what a client can tell of one GET.
type answer struct {
	Status  int
	Length  int64 // -1 without Content-Length
	Body    string
	BodyErr error
}

// get follows no redirect.
func get(ctx context.Context, t *testing.T, url string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatalf("GET %s: %v", url, err)
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	return answer{Status: response.StatusCode, Length: response.ContentLength, Body: string(data), BodyErr: err}
}

func TestImages_answers(t *testing.T) {
	cases := map[string]struct {
		reason string
		path   string
		want   answer
	}{
		"file": {
			reason: "a file comes whole with its length, which kvm2 requires of an image",
			path:   "/images/base.qcow2",
			want:   answer{Status: 200, Length: 16, Body: body},
		},
		"missing": {
			reason: "a file that is not there is 404",
			path:   "/images/none.qcow2",
			want:   answer{Status: 404, Length: 19, Body: "404 page not found\n"},
		},
		"directory": {
			reason: "a directory is not listed",
			path:   "/images/",
			want:   answer{Status: 404, Length: 19, Body: "404 page not found\n"},
		},
		"status": {
			reason: "any status can be asked for",
			path:   "/fault/status/503",
			want:   answer{Status: 503},
		},
		"status that is none": {
			reason: "a mistake in a test's address shows as 400, not as the fault",
			path:   "/fault/status/abc",
			want:   answer{Status: 400, Length: 44, Body: "the status must be a number from 200 to 599\n"},
		},
		"corrupt": {
			reason: "only the checksum is wrong: same length, last byte different",
			path:   "/fault/corrupt/images/base.qcow2",
			want:   answer{Status: 200, Length: 16, Body: "0123456789abcde\x99"},
		},
		"no length": {
			reason: "the body is whole and right, only its length is not declared",
			path:   "/fault/nolength/images/base.qcow2",
			want:   answer{Status: 200, Length: -1, Body: body},
		},
		"short": {
			reason: "the declared length is not reached: the connection ends after the asked bytes",
			path:   "/fault/short/4/images/base.qcow2",
			want:   answer{Status: 200, Length: 16, Body: "0123", BodyErr: io.ErrUnexpectedEOF},
		},
		"short of nothing": {
			reason: "a number of bytes below one is a mistake in the test",
			path:   "/fault/short/0/images/base.qcow2",
			want:   answer{Status: 400, Length: 31, Body: "bytes must be a number above 0\n"},
		},
		"fault of a missing file": {
			reason: "a fault needs a file that exists",
			path:   "/fault/corrupt/images/none.qcow2",
			want:   answer{Status: 404, Length: 19, Body: "404 page not found\n"},
		},
		"slow": {
			reason: "a slow transfer is whole and right in the end",
			path:   "/fault/slow/160/images/base.qcow2",
			want:   answer{Status: 200, Length: 16, Body: body},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := get(t.Context(), t, newImages(t).URL+tc.path)
			equalErrors := cmp.Comparer(errors.Is)
			if diff := cmp.Diff(tc.want, got, equalErrors); diff != "" {
				t.Errorf("%s\nGET %s: -want, +got:\n%s", tc.reason, tc.path, diff)
			}
		})
	}
}

func TestImages_redirectNamesTheFile(t *testing.T) {
	server := newImages(t)
	response, err := server.Client().Get(server.URL + "/fault/redirect/images/base.qcow2")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	got := [2]any{response.StatusCode, response.Request.URL.Path}
	want := [2]any{200, "/images/base.qcow2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a client that follows the redirect must end at the file: -want, +got:\n%s", diff)
	}
}

// A slow transfer takes the time that its rate says: 16 bytes at 40 a second are four tenths of a second.
func TestImages_slowIsSlow(t *testing.T) {
	server := newImages(t)
	start := time.Now()
	get(t.Context(), t, server.URL+"/fault/slow/40/images/base.qcow2")
	if took := time.Since(start); took < 300*time.Millisecond {
		t.Errorf("16 bytes at 40 bytes a second took %v, expected about 400ms", took)
	}
}

// A stalled transfer sends what was asked for, then nothing, and ends only with its client.
func TestImages_stallSendsThenNothing(t *testing.T) {
	server := newImages(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/fault/stall/4/images/base.qcow2", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	first := make([]byte, 4)
	if _, err := io.ReadFull(response.Body, first); err != nil {
		t.Fatalf("the first 4 bytes must come before the stall: %v", err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := response.Body.Read(make([]byte, 1))
		read <- err
	}()
	select {
	case err := <-read:
		t.Fatalf("after 4 bytes nothing must come, but the read returned %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	cancel()
	if err := <-read; !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled client gets %v, expected context.Canceled", err)
	}
}

func TestDirFlag_refusesWhatIsNoDirectory(t *testing.T) {
	for _, value := range []string{"", "images", "=dir", "images=", "fault=dir"} {
		if err := (dirFlag{}).Set(value); err == nil {
			t.Errorf("Set(%q) returned nil, expected an error: it is not NAME=DIRECTORY or takes /fault/'s place", value)
		}
	}
}
