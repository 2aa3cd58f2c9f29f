package kvm2

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

const testDisk = 4 << 30

// mirror is an HTTP server with one image.
type mirror struct {
	*httptest.Server

	mu       sync.Mutex
	requests []*http.Request
	content  []byte
	// serve answers instead of the plain content, where it is set.
	serve http.HandlerFunc
}

func newMirror(t *testing.T, content []byte) *mirror {
	t.Helper()
	m := &mirror{content: content}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		m.requests = append(m.requests, r)
		serve, content := m.serve, m.content
		m.mu.Unlock()
		if serve != nil {
			serve(w, r)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write(content) // the client may have left
	}))
	t.Cleanup(m.Close)
	return m
}

// set changes what is served from now on.
func (m *mirror) set(content []byte, serve http.HandlerFunc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.content, m.serve = content, serve
}

// methods gives the methods of the requests so far.
func (m *mirror) methods() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for _, r := range m.requests {
		out = append(out, r.Method)
	}
	return out
}

// image is the mirror's image with the checksum of what it serves.
func (m *mirror) image() provider.KVMImage {
	return provider.KVMImage{URL: m.URL + "/egress.qcow2", SHA256: hexSum(m.content), Format: provider.FormatQCOW2}
}

// imageRig is images on one fake host, as one process has it.
type imageRig struct {
	*images
	host *fakeHost
	conf provider.KVMHost
	ctl  conn
}

// newImageRig gives a process on h. Waits for other processes are short.
func newImageRig(t *testing.T, h *fakeHost, mods ...func(*imageLimits)) *imageRig {
	t.Helper()
	l := defaultImageLimits()
	l.poll, l.quiet = time.Millisecond, 20*time.Millisecond
	for _, mod := range mods {
		mod(&l)
	}
	conf := provider.KVMHost{Name: h.name, Address: "beelink.example.net", User: "u", Pool: provider.DefaultPool}
	dialer := newFakeDialer(h)
	hs := newHosts([]provider.KVMHost{conf}, dialer)
	r := &imageRig{images: newImagesWithin(hs, l), host: h, conf: conf, ctl: newFakeConn(h)}
	t.Cleanup(func() {
		r.Close()
		_ = r.ctl.Close()
		control := 0 // a failed transfer is cleaned up over the control connection
		if hs.byName[h.name].link != nil {
			control = 1
		}
		if n := dialer.openLinks() - control; n != 0 {
			t.Errorf("%d SSH connections are left open beside the control connection", n)
		}
		hs.Close()
	})
	return r
}

// get asks for an image for a disk of testDisk.
func (r *imageRig) get(ctx context.Context, img provider.KVMImage) (volume, string, error) {
	return r.ensure(ctx, r.ctl, r.conf, img, imageUser{instance: testName, diskBytes: testDisk})
}

func (r *imageRig) mustGet(t *testing.T, img provider.KVMImage) (volume, string) {
	t.Helper()
	vol, path, err := r.get(t.Context(), img)
	if err != nil {
		t.Fatalf("ensure: %v", err)
	}
	return vol, path
}

// transferInto brings an image into a pool that has just room for it and no more, so that the check for
// the instance's own disk that follows fails.
func (r *imageRig) transferInto(t *testing.T, img provider.KVMImage) {
	t.Helper()
	_, _, err := r.get(t.Context(), img)
	wantImageErr(t, err, provider.ErrQuotaExceeded, provider.ReasonQuotaExceeded, "")
	wantPublished(t, r.host, img)
}

// keyFor gives an image's key.
func keyFor(t *testing.T, img provider.KVMImage) imageKey {
	t.Helper()
	key, err := keyOf(img)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// wantPublished checks that the pool holds one base and one marker for each image and nothing else, and
// that each base is what its image's checksum says.
func wantPublished(t *testing.T, h *fakeHost, imgs ...provider.KVMImage) {
	t.Helper()
	names := h.volumeNames(provider.DefaultPool)
	if len(names) != 2*len(imgs) {
		t.Errorf("the pool holds %q, want a base and a marker for each of %d images", names, len(imgs))
	}
	for _, img := range imgs {
		key := keyFor(t, img)
		i := slices.IndexFunc(names, key.isBase)
		if i < 0 || !slices.Contains(names, key.marker()) {
			t.Errorf("the pool holds %q, want a base and a marker of %s", names, key)
			continue
		}
		h.withVolume(provider.DefaultPool, names[i], func(v *fakeVolume) {
			if !img.InsecureSkipChecksum && v.sha256 != img.SHA256 {
				t.Errorf("the base has the sha256 %s, want %s", v.sha256, img.SHA256)
			}
		})
	}
}

// wantVolumes checks the names in the pool.
func wantVolumes(t *testing.T, h *fakeHost, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := h.volumeNames(provider.DefaultPool); !slices.Equal(got, want) {
		t.Errorf("the pool holds %q, want %q", got, want)
	}
}

// waitFor polls until ok, and fails the test when that takes too long.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// waitForUpload waits until bytes of an image have reached the host.
func waitForUpload(t *testing.T, h *fakeHost) {
	t.Helper()
	waitFor(t, "an upload has begun", func() bool {
		begun := false
		h.withPool(provider.DefaultPool, func(p *fakePool) {
			begun = slices.ContainsFunc(p.volumes, func(v *fakeVolume) bool { return v.uploads > 0 && v.length > 0 })
		})
		return begun
	})
}

// waiting says how many callers wait for the transfer of an image.
func (r *imageRig) waiting(key imageKey) int { return waitingFor(r.images, r.conf, key) }

func waitingFor(i *images, host provider.KVMHost, key imageKey) int {
	i.flights.mu.Lock()
	f := i.flights.flying[flightID{host: host.Name, pool: host.Pool, key: key}]
	i.flights.mu.Unlock()
	if f == nil {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.callers)
}

// half serves the head and the first half of content, tells that it did, and goes on when release is
// closed. It gives up when the client does.
func half(content []byte, reached chan<- struct{}, release <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write(content[:len(content)/2]) // the client may have left
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		select {
		case reached <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		select {
		case <-release:
			_, _ = w.Write(content[len(content)/2:])
		case <-r.Context().Done():
		}
	}
}

// cut serves the head of all of content and only its first n bytes.
func cut(content []byte, n int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write(content[:n])
		panic(http.ErrAbortHandler)
	}
}

// status answers with a code and a page.
func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, "<html>%d</html>", code)
	}
}
