package kvm2

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/tracing"
)

func wantImageErr(t *testing.T, err error, class error, reason, text string) {
	t.Helper()
	if got := provider.ClassOf(err); !errors.Is(got, class) {
		t.Errorf("class of %v is %v, want %v", err, got, class)
	}
	if got := provider.ReasonOf(err); got != reason {
		t.Errorf("reason of %v is %s, want %s", err, got, reason)
	}
	if err != nil && !strings.Contains(err.Error(), text) {
		t.Errorf("error %q does not say %q", err, text)
	}
}

func TestEnsureImage_downloadsAndWritesMarkerLast(t *testing.T) {
	content := qcow2Bytes(300_000)
	m := newMirror(t, content)
	h := newFakeHost("beelink")
	r := newImageRig(t, h)
	img := m.image()
	vol, path := r.mustGet(t, img)

	wantPublished(t, h, img)
	if diff := cmp.Diff([]string{"GET"}, m.methods()); diff != "" {
		t.Errorf("requests: -want, +got:\n%s", diff)
	}
	key := keyFor(t, img)
	if !key.isBase(vol.Name) || path != "/srv/vms/images/"+vol.Name {
		t.Errorf("base is %q at %q, want one of %s in the pool's directory", vol.Name, path, key)
	}
	h.withVolume(provider.DefaultPool, vol.Name, func(v *fakeVolume) {
		if v.mode != "0644" {
			t.Errorf("the base's mode is %s, want 0644: several guests share it", v.mode)
		}
	})
	h.withVolume(provider.DefaultPool, key.marker(), func(v *fakeVolume) {
		if v.backing == nil || v.backing.Path != path || v.backing.Format.Type != "qcow2" || v.capacity != testVirtualSize {
			t.Errorf("the marker is %+v, want an overlay of %d bytes on %s", v, testVirtualSize, path)
		}
	})
	// What changes the pool, in order: a crash before the last step must leave nothing that counts.
	var steps []string
	for _, call := range h.recorded() {
		switch call.Method {
		case "StorageVolCreateXML", "StorageVolUpload", "StoragePoolRefresh", "StorageVolDelete":
			steps = append(steps, call.Method+" "+call.Arg)
		}
	}
	want := []string{
		"StoragePoolRefresh default", "StorageVolCreateXML " + vol.Name, "StorageVolUpload " + vol.Name,
		"StoragePoolRefresh default", "StorageVolCreateXML " + key.marker(),
	}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("steps: -want, +got:\n%s", diff)
	}
}

func TestEnsureImage_cachedWithMarkerSkipsDownload(t *testing.T) {
	m := newMirror(t, qcow2Bytes(100_000))
	h := newFakeHost("beelink")
	first, _ := newImageRig(t, h).mustGet(t, m.image())
	m.Close() // the mirror is down
	h.forget()
	again, _ := newImageRig(t, h).mustGet(t, m.image())
	if again.Name != first.Name {
		t.Errorf("base is %s, want the first one %s", again.Name, first.Name)
	}
	if n := len(m.methods()); n != 1 {
		t.Errorf("there were %d requests, want 1", n)
	}
	if n := h.count("StorageVolCreateXML") + h.count("StoragePoolRefresh") + h.count("StoragePoolListAllVolumes"); n != 0 {
		t.Errorf("a cached image took %d calls that change or list the pool, want none: %v", n, h.recorded())
	}
}

func TestEnsureImage_missingMarkerRedownloads(t *testing.T) {
	m := newMirror(t, qcow2Bytes(100_000))
	img := m.image()
	h := newFakeHost("beelink")
	r := newImageRig(t, h)
	first, _ := r.mustGet(t, img)
	h.withPool(provider.DefaultPool, func(p *fakePool) {
		p.volumes = slices.DeleteFunc(p.volumes, func(v *fakeVolume) bool { return v.name == keyFor(t, img).marker() })
	})
	second, _ := r.mustGet(t, img)
	if n := len(m.methods()); n != 2 {
		t.Errorf("there were %d requests, want 2: without a marker nobody knows what the base holds", n)
	}
	if first.Name == second.Name {
		t.Error("the second transfer wrote into the first one's volume, whose writer may live")
	}
	wantPublished(t, h, img)
}

// A base that lost its marker may be somebody's disk.
func TestEnsureImage_missingMarkerSparesABaseInUse(t *testing.T) {
	m := newMirror(t, qcow2Bytes(100_000))
	img := m.image()
	key := keyFor(t, img)
	h := newFakeHost("beelink")
	r := newImageRig(t, h)
	first, path := r.mustGet(t, img)
	doc, err := overlayVolumeXML("vm.qcow2", testDisk, path, "qcow2")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.ctl.StorageVolCreateXML(t.Context(), pool{Name: provider.DefaultPool}, doc); err != nil {
		t.Fatal(err)
	}
	if err := r.ctl.StorageVolDelete(t.Context(), volume{Pool: provider.DefaultPool, Name: key.marker()}); err != nil {
		t.Fatal(err)
	}
	second, _ := r.mustGet(t, img)
	wantVolumes(t, h, first.Name, second.Name, key.marker(), "vm.qcow2")
}

func TestEnsureImage_sha256ChangeRedownloads(t *testing.T) {
	m := newMirror(t, qcow2Bytes(100_000))
	before := m.image()
	h := newFakeHost("beelink")
	r := newImageRig(t, h)
	r.mustGet(t, before)
	m.set(qcow2Bytes(120_000), nil)
	after := m.image()
	r.mustGet(t, after)
	if n := len(m.methods()); n != 2 {
		t.Errorf("there were %d requests, want 2", n)
	}
	wantPublished(t, h, before, after) // the first one stays: VMs run on it
}

func TestEnsureImage_urlIsTheNameWithoutChecksum(t *testing.T) {
	m := newMirror(t, qcow2Bytes(100_000))
	img := m.image()
	img.SHA256, img.InsecureSkipChecksum = "", true
	other := img
	other.URL = m.URL + "/other.qcow2"
	h := newFakeHost("beelink")
	r := newImageRig(t, h)
	r.mustGet(t, img)
	r.mustGet(t, img)
	r.mustGet(t, other)
	if n := len(m.methods()); n != 2 {
		t.Errorf("there were %d requests, want one for each of two URLs", n)
	}
	wantPublished(t, h, img, other)
}

func TestEnsureImage_sha256MismatchIsPermanentAndRemovesVolume(t *testing.T) {
	content := qcow2Bytes(200_000)
	m := newMirror(t, content)
	img := m.image()
	bad := slices.Clone(content)
	bad[150_000] ^= 1
	m.set(bad, nil)
	h := newFakeHost("beelink")
	r := newImageRig(t, h)
	for range 3 {
		_, _, err := r.get(t.Context(), img)
		wantImageErr(t, err, provider.ErrPermanent, provider.ReasonImageChecksumMismatch, hexSum(bad))
		wantVolumes(t, h)
	}
	m.set(content, nil) // the vendor put it right
	r.mustGet(t, img)
	wantPublished(t, h, img)
}

func TestEnsureImage_noContentLengthIsPermanent(t *testing.T) {
	content := qcow2Bytes(100_000)
	cases := map[string]struct {
		reason string
		serve  http.HandlerFunc
	}{
		"chunked": {"the length is known at the end only", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(content[:50_000])
			if f, ok := w.(http.Flusher); ok {
				f.Flush()
			}
			_, _ = w.Write(content[50_000:])
		}},
		"HTTP/1.0 until close": {"a cut and an end look alike", func(w http.ResponseWriter, _ *http.Request) {
			hijacker, ok := w.(http.Hijacker)
			if !ok {
				panic("no hijacker")
			}
			c, _, err := hijacker.Hijack()
			if err != nil {
				panic(err)
			}
			_, _ = io.WriteString(c, "HTTP/1.0 200 OK\r\nContent-Type: application/octet-stream\r\n\r\n")
			_, _ = c.Write(content[:60_000])
			_ = c.Close()
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t, content)
			m.set(content, tc.serve)
			h := newFakeHost("beelink")
			_, _, err := newImageRig(t, h).get(t.Context(), m.image())
			wantImageErr(t, err, provider.ErrPermanent, provider.ReasonImageUnavailable, "Content-Length")
			wantVolumes(t, h)
			if n := h.count("StorageVolCreateXML"); n != 0 {
				t.Errorf("%s: a volume was made", tc.reason)
			}
		})
	}
}

func TestEnsureImage_http404IsPermanent(t *testing.T) {
	for _, code := range []int{401, 403, 404, 410, 204, 206, 304} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			m := newMirror(t, qcow2Bytes(1000))
			m.set(nil, status(code))
			h := newFakeHost("beelink")
			_, _, err := newImageRig(t, h).get(t.Context(), m.image())
			wantImageErr(t, err, provider.ErrPermanent, provider.ReasonImageUnavailable, strconv.Itoa(code))
			wantVolumes(t, h)
		})
	}
}

func TestEnsureImage_http503IsTransient(t *testing.T) {
	for _, code := range []int{408, 425, 429, 500, 502, 503, 504} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			m := newMirror(t, qcow2Bytes(1000))
			m.set(nil, status(code))
			h := newFakeHost("beelink")
			_, _, err := newImageRig(t, h).get(t.Context(), m.image())
			wantImageErr(t, err, provider.ErrTransient, provider.ReasonImageUnavailable, strconv.Itoa(code))
			wantVolumes(t, h)
		})
	}
}

func TestEnsureImage_concurrentCallersFetchOnce(t *testing.T) {
	const callers = 10
	content := qcow2Bytes(400_000)
	m := newMirror(t, content)
	img := m.image()
	reached, release := make(chan struct{}), make(chan struct{})
	m.set(content, half(content, reached, release))
	h := newFakeHost("beelink")
	r := newImageRig(t, h)
	paths := make([]string, callers)
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			_, path, err := r.get(t.Context(), img)
			if err != nil {
				t.Errorf("caller %d: %v", i, err)
			}
			paths[i] = path
		})
	}
	<-reached
	waitFor(t, "all callers wait for one transfer", func() bool { return r.waiting(keyFor(t, img)) == callers })
	close(release)
	group.Wait()
	if n := len(m.methods()); n != 1 {
		t.Errorf("%d callers made %d requests, want 1", callers, n)
	}
	if slices.ContainsFunc(paths, func(p string) bool { return p != paths[0] }) {
		t.Errorf("callers got different bases: %q", paths)
	}
	wantPublished(t, h, img)
}

func TestEnsureImage_cancelledMidStreamReturnsPromptly(t *testing.T) {
	content := qcow2Bytes(400_000)
	m := newMirror(t, content)
	img := m.image()
	reached := make(chan struct{})
	m.set(content, half(content, reached, nil)) // it never goes on
	h := newFakeHost("beelink")
	r := newImageRig(t, h)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, _, err := r.get(ctx, img)
		result <- err
	}()
	<-reached
	waitForUpload(t, h)
	cancelled := time.Now()
	cancel()
	err := <-result
	if took := time.Since(cancelled); took > time.Second {
		t.Errorf("it took %v to return, want less than a second", took)
	}
	wantImageErr(t, err, provider.ErrTransient, provider.ReasonCanceled, "")
	waitFor(t, "the volume of the cancelled transfer is removed", func() bool { return len(h.volumeNames(provider.DefaultPool)) == 0 })
}

func TestEnsureImage_oneCallersCancelLeavesTheOthers(t *testing.T) {
	content := qcow2Bytes(400_000)
	m := newMirror(t, content)
	img := m.image()
	reached, release := make(chan struct{}), make(chan struct{})
	m.set(content, half(content, reached, release))
	h := newFakeHost("beelink")
	r := newImageRig(t, h)
	first, cancel := context.WithCancel(t.Context())
	results := make(chan error, 2)
	ask := func(ctx context.Context) {
		_, _, err := r.get(ctx, img)
		results <- err
	}
	go ask(first)
	<-reached
	go ask(t.Context())
	waitFor(t, "both wait", func() bool { return r.waiting(keyFor(t, img)) == 2 })
	cancel()
	if err := <-results; !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled caller got %v", err)
	}
	close(release)
	if err := <-results; err != nil {
		t.Errorf("the other caller got %v, want the image: the first one's cancel is not its own", err)
	}
	wantPublished(t, h, img)
}

// A caller who comes while a cancelled transfer is being cleaned up gets one of its own.
func TestEnsureImage_callerAfterACancelStartsAnew(t *testing.T) {
	content := qcow2Bytes(400_000)
	m := newMirror(t, content)
	img := m.image()
	reached := make(chan struct{})
	m.set(content, half(content, reached, nil))
	h := newFakeHost("beelink")
	r := newImageRig(t, h)
	cleaning, proceed := make(chan struct{}), make(chan struct{})
	h.arm(fault{method: "StorageVolDelete", nth: 1, entered: cleaning, block: proceed})
	first, cancel := context.WithCancel(t.Context())
	results := make(chan error, 2)
	go func() {
		_, _, err := r.get(first, img)
		results <- err
	}()
	<-reached
	waitForUpload(t, h)
	m.set(content, nil)
	cancel()
	if err := <-results; !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled caller got %v", err)
	}
	<-cleaning
	h.forget()
	go func() {
		_, _, err := r.get(t.Context(), img)
		results <- err
	}()
	waitFor(t, "the next caller has found no marker", func() bool { return h.count("StorageVolLookupByName") > 0 })
	close(proceed)
	if err := <-results; err != nil {
		t.Errorf("the next caller got %v, want the image", err)
	}
	wantPublished(t, h, img)
}

// pattern serves length bytes of a qcow2 image without holding them.
func pattern(length int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(length))
		block := make([]byte, 1<<20)
		for sent := 0; sent < length; {
			chunk := block[:min(len(block), length-sent)]
			if sent == 0 {
				copy(chunk, qcow2Bytes(4096))
			}
			n, err := w.Write(chunk)
			if err != nil {
				return
			}
			clear(chunk)
			sent += n
		}
	}
}

func TestEnsureImage_streamsWithoutBuffering(t *testing.T) {
	const length, limit = 160 << 20, 48 << 20
	m := newMirror(t, nil)
	m.set(nil, pattern(length))
	img := m.image()
	img.SHA256, img.InsecureSkipChecksum = "", true
	h := newFakeHost("beelink")
	r := newImageRig(t, h)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r.mustGet(t, img)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > limit {
		t.Errorf("an image of %d MiB took %d MiB of memory in all, want at most %d", length>>20, used>>20, limit>>20)
	}
}

func TestEnsureImage_cutTransferLeavesNothing(t *testing.T) {
	content := qcow2Bytes(1_000_000)
	for name, n := range map[string]int{"1 %": 10_000, "50 %": 500_000, "99 %": 990_000, "last byte": 999_999, "head only": 0} {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t, content)
			img := m.image()
			m.set(content, cut(content, n))
			h := newFakeHost("beelink")
			r := newImageRig(t, h)
			for range 3 {
				_, _, err := r.get(t.Context(), img)
				wantImageErr(t, err, provider.ErrTransient, provider.ReasonImageUnavailable, "EOF")
				wantVolumes(t, h)
			}
			m.set(content, nil)
			r.mustGet(t, img)
			wantPublished(t, h, img)
		})
	}
}

// A mirror that sends a byte now and then is never idle.
func TestEnsureImage_transferHasALimit(t *testing.T) {
	content := qcow2Bytes(400_000)
	m := newMirror(t, content)
	img := m.image()
	m.set(content, half(content, make(chan struct{}, 1), nil))
	h := newFakeHost("beelink")
	r := newImageRig(t, h, func(l *imageLimits) { l.transfer = 100 * time.Millisecond })
	_, _, err := r.get(t.Context(), img)
	wantImageErr(t, err, provider.ErrTransient, provider.ReasonTimeout, "did not end within 100ms")
	wantVolumes(t, h)
}

func TestEnsureImage_silentMirrorIsTransientAndLeavesNothing(t *testing.T) {
	content := qcow2Bytes(400_000)
	m := newMirror(t, content)
	img := m.image()
	m.set(content, half(content, make(chan struct{}, 1), nil))
	h := newFakeHost("beelink")
	r := newImageRig(t, h, func(l *imageLimits) { l.idle = 100 * time.Millisecond })
	_, _, err := r.get(t.Context(), img)
	wantImageErr(t, err, provider.ErrTransient, provider.ReasonTimeout, "sent nothing")
	wantVolumes(t, h)
}

// What cannot be removed now is removed by the next transfer.
func TestEnsureImage_failedCleanupIsMadeUpFor(t *testing.T) {
	content := qcow2Bytes(400_000)
	m := newMirror(t, content)
	img := m.image()
	m.set(content, cut(content, 200_000))
	h := newFakeHost("beelink")
	r := newImageRig(t, h)
	h.arm(fault{method: "StorageVolDelete", err: virErr(38, "cannot unlink file: Read-only file system")})
	_, _, err := r.get(t.Context(), img)
	wantImageErr(t, err, provider.ErrTransient, provider.ReasonImageUnavailable, "EOF")
	if n := len(h.volumeNames(provider.DefaultPool)); n != 1 {
		t.Fatalf("%d volumes are left, want the one that could not be removed", n)
	}
	h.disarm()
	m.set(content, nil)
	r.mustGet(t, img)
	wantPublished(t, h, img)
}

// The checksum is right and the header looks well: the host's QEMU has the last word, before a VM does.
func TestEnsureImage_imageThatQEMUCannotReadIsPermanent(t *testing.T) {
	m := newMirror(t, qcow2Bytes(100_000))
	img := m.image()
	h := newFakeHost("beelink")
	cases := map[string]struct {
		text, reason string
		class        error
	}{
		"damaged": {"Could not open '/srv/vms/images/x': Image is corrupt", provider.ReasonImageInvalid, provider.ErrPermanent},
		"full":    {"/srv/vms/images/x: No space left on device", provider.ReasonQuotaExceeded, provider.ErrQuotaExceeded},
		"denied":  {"Could not open '/srv/vms/images/x': Permission denied", provider.ReasonPermissionDenied, provider.ErrTransient},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			h.arm(fault{method: "StorageVolCreateXML", arg: keyFor(t, img).marker(), err: virErr(libvirt.ErrInternalError,
				"internal error: Child process (/usr/bin/qemu-img create "+strings.Repeat("x", 600)+") unexpected exit status 1: qemu-img: "+tc.text)})
			defer h.disarm()
			_, _, err := newImageRig(t, h).get(t.Context(), img)
			wantImageErr(t, err, tc.class, tc.reason, tc.text)
			wantVolumes(t, h)
		})
	}
}

func TestEnsureImage_refusesAPoolWithoutFiles(t *testing.T) {
	m := newMirror(t, qcow2Bytes(100_000))
	h := newFakeHost("beelink")
	h.withPool(provider.DefaultPool, func(p *fakePool) { p.kind = "logical" })
	_, _, err := newImageRig(t, h).get(t.Context(), m.image())
	wantImageErr(t, err, provider.ErrPermanent, provider.ReasonPoolUnsupported, "logical")
	if n := len(m.methods()); n != 0 {
		t.Error("the image was asked for")
	}
}

func TestEnsureImage_wrongLengthIsFound(t *testing.T) {
	content := qcow2Bytes(200_000)
	m := newMirror(t, content)
	img := m.image()
	h := newFakeHost("beelink")
	r := newImageRig(t, h)
	// Too small a length: HTTP ends the body there.
	m.set(content[:150_000], nil)
	_, _, err := r.get(t.Context(), img)
	wantImageErr(t, err, provider.ErrPermanent, provider.ReasonImageChecksumMismatch, "sha256")
	wantVolumes(t, h)
}

func TestEnsureImage_refusesWhatIsNoImage(t *testing.T) {
	page := []byte("<!DOCTYPE html>\n<html><body>log in</body></html>")
	cases := map[string]struct {
		content []byte
		text    string
	}{
		"web page with 200": {page, "web page"},
		"gzip":              {append([]byte("\x1f\x8b\x08"), qcow2Bytes(5000)...), "gzip"},
		"nothing":           {nil, "empty"},
		"backing file":      {qcow2Bytes(5000, func(h []byte) { h[15] = 200 }), "backing file"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t, tc.content)
			h := newFakeHost("beelink")
			_, _, err := newImageRig(t, h).get(t.Context(), m.image())
			wantImageErr(t, err, provider.ErrPermanent, provider.ReasonImageInvalid, tc.text)
			if n := h.count("StorageVolCreateXML"); n != 0 {
				t.Error("a volume was made for it")
			}
		})
	}
}

// libvirt makes an overlay that is smaller than its base without a word.
func TestEnsureImage_refusesADiskSmallerThanTheImage(t *testing.T) {
	m := newMirror(t, qcow2Bytes(100_000))
	img := m.image()
	h := newFakeHost("beelink")
	r := newImageRig(t, h)
	for name, prepare := range map[string]func(){"before the transfer": func() {}, "cached": func() { r.mustGet(t, img) }} {
		prepare()
		_, _, err := r.ensure(t.Context(), r.ctl, r.conf, img, imageUser{instance: testName, diskBytes: testVirtualSize - 1})
		wantImageErr(t, err, provider.ErrPermanent, provider.ReasonImageInvalid, "choose at least 2")
		if t.Failed() {
			t.Fatalf("%s: it was not refused", name)
		}
	}
}

func TestEnsureImage_refusesAnotherFormatThanCached(t *testing.T) {
	m := newMirror(t, qcow2Bytes(100_000))
	img := m.image()
	r := newImageRig(t, newFakeHost("beelink"))
	r.mustGet(t, img)
	img.Format = provider.FormatRaw
	_, _, err := r.get(t.Context(), img)
	wantImageErr(t, err, provider.ErrPermanent, provider.ReasonImageInvalid, "says raw")
}

func TestEnsureImage_needsAChecksum(t *testing.T) {
	r := newImageRig(t, newFakeHost("beelink"))
	for name, sum := range map[string]string{"none": "", "short": strings.Repeat("a", 63), "capitals": strings.Repeat("A", 64)} {
		t.Run(name, func(t *testing.T) {
			img := testImage(t)
			img.SHA256 = sum
			_, _, err := r.get(t.Context(), img)
			wantImageErr(t, err, provider.ErrPermanent, provider.ReasonImageInvalid, "insecureSkipChecksum")
		})
	}
}

func TestEnsureImage_fullPoolIsQuotaBeforeAnythingIsMade(t *testing.T) {
	content := qcow2Bytes(1_000_000)
	m := newMirror(t, content)
	h := newFakeHost("beelink")
	h.withPool(provider.DefaultPool, func(p *fakePool) { p.capacity = testDisk + spaceReserve + 999_999 })
	r := newImageRig(t, h)
	_, _, err := r.get(t.Context(), m.image())
	wantImageErr(t, err, provider.ErrQuotaExceeded, provider.ReasonQuotaExceeded, "pool default")
	if n := h.count("StorageVolCreateXML"); n != 0 {
		t.Error("a volume was made")
	}
}

func TestEnsureImage_poolThatFillsUpIsQuotaAndLeavesNothing(t *testing.T) {
	content := qcow2Bytes(1_000_000)
	m := newMirror(t, content)
	img := m.image()
	h := newFakeHost("beelink")
	reached, release := make(chan struct{}), make(chan struct{})
	m.set(content, half(content, reached, release))
	r := newImageRig(t, h)
	result := make(chan error, 1)
	go func() {
		_, _, err := r.get(t.Context(), img)
		result <- err
	}()
	<-reached
	waitForUpload(t, h)
	h.withPool(provider.DefaultPool, func(p *fakePool) { p.used = p.capacity })
	close(release)
	wantImageErr(t, <-result, provider.ErrQuotaExceeded, provider.ReasonQuotaExceeded, "No space left")
	wantVolumes(t, h)
}

func TestEnsureImage_lostConnectionLeavesNothing(t *testing.T) {
	for _, method := range []string{"StorageVolCreateXML", "StorageVolUpload", "StoragePoolRefresh", "StorageVolGetPath"} {
		for _, after := range []bool{false, true} {
			t.Run(method+map[bool]string{false: " before", true: " after"}[after], func(t *testing.T) {
				m := newMirror(t, qcow2Bytes(100_000))
				img := m.image()
				h := newFakeHost("beelink")
				r := newImageRig(t, h)
				h.arm(fault{method: method, nth: 1, drop: true, after: after})
				_, _, err := r.get(t.Context(), img)
				if err == nil {
					t.Fatal("no error although the connection was lost")
				}
				wantImageErr(t, err, provider.ErrTransient, provider.ReasonUnreachable, "")
				h.disarm()
				r.mustGet(t, img)
				wantPublished(t, h, img)
			})
		}
	}
}

// The answer to the marker's making is lost, and another process uses the base by then.
func TestEnsureImage_lostAnswerKeepsAPublishedBase(t *testing.T) {
	m := newMirror(t, qcow2Bytes(100_000))
	img := m.image()
	h := newFakeHost("beelink")
	r := newImageRig(t, h)
	marker := keyFor(t, img).marker()
	h.arm(fault{method: "StorageVolCreateXML", arg: marker, nth: 1, drop: true, after: true})
	_, _, err := r.get(t.Context(), img)
	wantImageErr(t, err, provider.ErrTransient, provider.ReasonUnreachable, "")
	h.disarm()
	wantPublished(t, h, img)
	r.mustGet(t, img)
	if n := len(m.methods()); n != 1 {
		t.Errorf("there were %d requests, want 1: the base was published", n)
	}
}

func TestEnsureImage_hiddenByPoolErrors(t *testing.T) {
	cases := map[string]struct {
		reason string
		harm   func(h *fakeHost)
		class  error
		want   string
	}{
		"no pool":       {"it names nothing of the image", func(h *fakeHost) { h.removePool(provider.DefaultPool) }, provider.ErrPermanent, provider.ReasonPoolNotFound},
		"inactive pool": {"the image may be in it", func(h *fakeHost) { h.withPool(provider.DefaultPool, func(p *fakePool) { p.state = fakePoolInactive }) }, provider.ErrTransient, provider.ReasonPoolNotActive},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			h := newFakeHost("beelink")
			cacheTestImage(t, h)
			tc.harm(h)
			_, _, err := newImageRig(t, h).get(t.Context(), testImage(t))
			wantImageErr(t, err, tc.class, tc.want, "default")
		})
	}
}

// Another tool's volume job ends.
func TestEnsureImage_waitsForJobsInThePool(t *testing.T) {
	m := newMirror(t, qcow2Bytes(100_000))
	img := m.image()
	h := newFakeHost("beelink")
	busy := virErr(1, "internal error: pool 'default' has asynchronous jobs running.")
	for n := 2; n <= 4; n++ { // the first refresh is before the transfer
		h.arm(fault{method: "StoragePoolRefresh", nth: n, err: busy})
	}
	newImageRig(t, h).mustGet(t, img)
	wantPublished(t, h, img)
}

func TestEnsureImage_reportsProgressToEveryCaller(t *testing.T) {
	content := qcow2Bytes(400_000)
	m := newMirror(t, content)
	img := m.image()
	reached, release := make(chan struct{}), make(chan struct{})
	m.set(content, half(content, reached, release))
	r := newImageRig(t, newFakeHost("beelink"))
	var mu sync.Mutex
	last := map[int]provider.Progress{}
	var group sync.WaitGroup
	ask := func(n int) {
		ctx := provider.WithProgress(t.Context(), func(p provider.Progress) {
			mu.Lock()
			defer mu.Unlock()
			last[n] = p
		})
		if _, _, err := r.get(ctx, img); err != nil {
			t.Errorf("caller %d: %v", n, err)
		}
	}
	group.Go(func() { ask(1) })
	<-reached
	group.Go(func() { ask(2) })
	waitFor(t, "both wait", func() bool { return r.waiting(keyFor(t, img)) == 2 })
	close(release)
	group.Wait()
	whole := provider.Progress{Step: "image transfer", Done: 400_000, Total: 400_000}
	if diff := cmp.Diff(map[int]provider.Progress{1: whole, 2: whole}, last); diff != "" {
		t.Errorf("last reports: -want, +got:\n%s", diff)
	}
}

func TestEnsureImage_downloadSpanUnderTheCallers(t *testing.T) {
	recorder := recordSpans(t)
	m := newMirror(t, qcow2Bytes(100_000))
	r := newImageRig(t, newFakeHost("beelink"))
	ctx, parent := tracing.Start(t.Context(), "provider.create")
	if _, _, err := r.get(ctx, m.image()); err != nil {
		t.Fatal(err)
	}
	parent.End()
	for _, span := range recorder.Ended() {
		if span.Name() == "kvm2.download" {
			if span.Parent().SpanID() != parent.SpanContext().SpanID() {
				t.Error("kvm2.download is not a child of the caller's span")
			}
			return
		}
	}
	t.Error("there is no span kvm2.download")
}

// --- Several processes at one pool ---

// killed leaves what a process leaves that was killed in the middle of a transfer.
func killed(t *testing.T, h *fakeHost, img provider.KVMImage, content []byte) string {
	t.Helper()
	base := keyFor(t, img).newBase(testName, img.Format)
	h.addVolume(provider.DefaultPool, base, content)
	return base
}

func TestEnsureImage_takesOverAfterAKilledProcess(t *testing.T) {
	content := qcow2Bytes(300_000)
	for name, left := range map[string][]byte{"nothing": {}, "a part": content[:100_000], "all but the marker": content} {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t, content)
			img := m.image()
			h := newFakeHost("beelink")
			dead := killed(t, h, img, left)
			vol, _ := newImageRig(t, h).mustGet(t, img)
			if vol.Name == dead {
				t.Error("a base that nobody vouches for was taken")
			}
			wantPublished(t, h, img)
		})
	}
}

// What a killed process left must not take the room that the next transfer needs.
func TestEnsureImage_freesTheRoomOfAKilledProcess(t *testing.T) {
	content := qcow2Bytes(300_000)
	m := newMirror(t, content)
	img := m.image()
	h := newFakeHost("beelink")
	h.withPool(provider.DefaultPool, func(p *fakePool) { p.capacity = 300_000 + testDisk + spaceReserve })
	dead := killed(t, h, img, content)
	newImageRig(t, h).transferInto(t, img)
	if slices.Contains(h.volumeNames(provider.DefaultPool), dead) {
		t.Errorf("%s is left", dead)
	}
}

// A process that was slow, not dead, publishes at the very moment when its volume is to make room.
func TestEnsureImage_sparesABaseThatIsJustPublished(t *testing.T) {
	content := qcow2Bytes(300_000)
	m := newMirror(t, content)
	img := m.image()
	h := newFakeHost("beelink")
	h.withPool(provider.DefaultPool, func(p *fakePool) { p.capacity = 300_000 + testDisk + spaceReserve })
	theirs := killed(t, h, img, content)
	var once sync.Once
	h.arm(fault{method: "StorageVolGetXMLDesc", arg: theirs, hook: func() {
		if h.count("StoragePoolGetInfo") > 0 { // the room was found too small, and the volumes are being read
			once.Do(func() {
				h.withPool(provider.DefaultPool, func(p *fakePool) { p.capacity += 1 << 20 })
				makeOverlayIn(t, h, keyFor(t, img).marker(), "/srv/vms/images/"+theirs)
			})
		}
	}})
	_, _, err := newImageRig(t, h).get(t.Context(), img)
	wantImageErr(t, err, provider.ErrQuotaExceeded, provider.ReasonQuotaExceeded, "")
	wantVolumes(t, h, theirs, keyFor(t, img).marker())
}

// What a killed process left of one image must not cost another image's base.
func TestEnsureImage_sweepsOnlyItsOwnImage(t *testing.T) {
	m := newMirror(t, qcow2Bytes(100_000))
	img := m.image()
	h := newFakeHost("beelink")
	cacheTestImage(t, h)
	other := testImage(t)
	other.SHA256 = strings.Repeat("0", 64)
	foreign := []string{
		killed(t, h, other, []byte("x")),
		basePrefix + img.SHA256 + "-backup.qcow2", "vm-1.qcow2", "vm-10.qcow2",
	}
	for _, name := range foreign[1:] {
		h.addVolume(provider.DefaultPool, name, []byte("x"))
	}
	dead := killed(t, h, img, []byte("x"))
	newImageRig(t, h).mustGet(t, img)
	names := h.volumeNames(provider.DefaultPool)
	for _, name := range foreign {
		if !slices.Contains(names, name) {
			t.Errorf("%s was removed", name)
		}
	}
	if slices.Contains(names, dead) {
		t.Errorf("%s was left", dead)
	}
}

// An attempt that grows from look to look belongs to a process that lives, however long it takes.
func TestEnsureImage_waitsForAnotherProcess(t *testing.T) {
	m := newMirror(t, qcow2Bytes(100_000))
	img := m.image()
	h := newFakeHost("beelink")
	theirs := killed(t, h, img, []byte("x"))
	const looks = 100 // of a millisecond at least, so much longer than the quiet time
	var seen atomic.Int32
	h.arm(fault{method: "StorageVolGetXMLDesc", arg: theirs, hook: func() {
		h.withVolume(provider.DefaultPool, theirs, func(v *fakeVolume) { v.allocation++ })
		if seen.Add(1) == looks {
			makeOverlayIn(t, h, keyFor(t, img).marker(), "/srv/vms/images/"+theirs)
		}
	}})
	var waited atomic.Bool
	ctx := provider.WithProgress(t.Context(), func(p provider.Progress) {
		if strings.Contains(p.Step, "another process") && p.Done > 0 {
			waited.Store(true)
		}
	})
	r := newImageRig(t, h)
	vol, _, err := r.get(ctx, img)
	if err != nil || vol.Name != theirs {
		t.Errorf("got %s, %v, want the other process's base %s", vol.Name, err, theirs)
	}
	if n := len(m.methods()); n != 0 {
		t.Errorf("the image was asked for %d times while another process was at it", n)
	}
	if !waited.Load() {
		t.Error("the caller was not told what it waits for")
	}
}

// A process that was wrongly taken for dead finds its volume gone and takes the other's.
func TestEnsureImage_processTakenForDeadYields(t *testing.T) {
	content := qcow2Bytes(400_000)
	m := newMirror(t, content)
	img := m.image()
	reached, release := make(chan struct{}), make(chan struct{})
	m.set(content, half(content, reached, release))
	h := newFakeHost("beelink")
	slow, fast := newImageRig(t, h), newImageRig(t, h)
	results := make(chan volume, 1)
	go func() {
		vol, _, err := slow.get(t.Context(), img)
		if err != nil {
			t.Errorf("the slow process: %v", err)
		}
		results <- vol
	}()
	<-reached
	waitForUpload(t, h)
	m.set(content, nil)
	vol, _ := fast.mustGet(t, img) // waits out the quiet time, then begins anew
	close(release)
	if other := <-results; other.Name != vol.Name {
		t.Errorf("the slow process got %s, want the published %s", other.Name, vol.Name)
	}
	wantPublished(t, h, img)
}

// Whatever two processes do at the same time: one marker, one base, the right bytes.
func TestEnsureImage_racingProcessesPublishOnce(t *testing.T) {
	content := qcow2Bytes(200_000)
	m := newMirror(t, content)
	img := m.image()
	for round := range 30 {
		h := newFakeHost("beelink")
		var group sync.WaitGroup
		rigs := make([]*imageRig, 4)
		for i := range rigs {
			rigs[i] = newImageRig(t, h, func(l *imageLimits) { l.quiet = time.Duration(rand.IntN(3)) * time.Millisecond })
		}
		for i, r := range rigs {
			group.Go(func() {
				if _, _, err := r.get(t.Context(), img); err != nil && !errors.Is(err, provider.ErrTransient) {
					t.Errorf("round %d, process %d: %v", round, i, err)
				}
			})
		}
		group.Wait()
		rigs[0].mustGet(t, img)
		wantPublished(t, h, img)
		if t.Failed() {
			return
		}
	}
}

// The base's file was removed by hand; libvirt still lists it.
func TestEnsureImage_markerWithoutBaseIsReplaced(t *testing.T) {
	for name, harm := range map[string]func(p *fakePool, base string){
		"gone from the listing": func(p *fakePool, base string) {
			p.volumes = slices.DeleteFunc(p.volumes, func(v *fakeVolume) bool { return v.name == base })
		},
		"gone from the disk": func(p *fakePool, base string) { p.file(base).gone = true },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t, qcow2Bytes(100_000))
			img := m.image()
			h := newFakeHost("beelink")
			r := newImageRig(t, h)
			first, _ := r.mustGet(t, img)
			h.withPool(provider.DefaultPool, func(p *fakePool) { harm(p, first.Name) })
			second, _ := r.mustGet(t, img)
			if second.Name == first.Name {
				t.Error("a base without a file was handed out")
			}
			wantPublished(t, h, img)
		})
	}
}

// A volume under the marker's name vouches for a base of the image only.
func TestEnsureImage_foreignMarkerVouchesForNothing(t *testing.T) {
	cases := map[string]func(t *testing.T, h *fakeHost, marker string){
		"no overlay": func(_ *testing.T, h *fakeHost, marker string) {
			h.addVolume(provider.DefaultPool, marker, []byte("ok"))
		},
		"overlay on a VM's disk": func(t *testing.T, h *fakeHost, marker string) {
			h.addVolume(provider.DefaultPool, "vm-1.qcow2", []byte("disk"))
			makeOverlayIn(t, h, marker, "/srv/vms/images/vm-1.qcow2")
		},
	}
	for name, harm := range cases {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t, qcow2Bytes(100_000))
			img := m.image()
			h := newFakeHost("beelink")
			harm(t, h, keyFor(t, img).marker())
			vol, _ := newImageRig(t, h).mustGet(t, img)
			if !keyFor(t, img).isBase(vol.Name) {
				t.Errorf("%s was handed out as the base", vol.Name)
			}
		})
	}
}
