package kvm2

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// guestWrites lets the guest write to its console.
func guestWrites(r *rig, text string) {
	r.host.withVolume(testPool, consoleLogName(testName), func(v *fakeVolume) { v.content = append(v.content, text...) })
}

// wantConsole reads from the offset on, and gives the next one.
func wantConsole(t *testing.T, r *rig, from int64, want string) int64 {
	t.Helper()
	var got bytes.Buffer
	next, err := r.ReadConsole(t.Context(), testID, from, &got)
	if err != nil {
		t.Fatalf("read the console from %d: %v", from, err)
	}
	if got.String() != want {
		t.Errorf("the console from %d on is %q, want %q", from, got.String(), want)
	}
	return next
}

func TestReadConsole_goesOnWhereItWas(t *testing.T) {
	r := created(t)
	next := wantConsole(t, r, 0, fakeConsole)
	next = wantConsole(t, r, next, "")
	guestWrites(r, "second line\n")
	next = wantConsole(t, r, next, "second line\n")
	// virtlogd has begun a new file.
	r.host.withVolume(testPool, consoleLogName(testName), func(v *fakeVolume) { v.content = []byte("anew\n") })
	if next = wantConsole(t, r, next, "anew\n"); next != 5 {
		t.Errorf("the next offset is %d, want 5", next)
	}
	wantConsole(t, r, -1, "anew\n")
	wantUntouched(t, r)
}

func TestReadConsole_worksForAVMThatIsOff(t *testing.T) {
	r := created(t)
	r.host.withDomain(testName, func(d *fakeDomain) { d.live, d.state = nil, fakeCrashed })
	wantConsole(t, r, 0, fakeConsole)
}

// A log longer than one call reads comes in pieces, and no more than that is kept in memory.
func TestReadConsole_longLogsComeInPieces(t *testing.T) {
	r := created(t)
	guestWrites(r, strings.Repeat("0123456789abcdef", maxConsole/16))
	var got bytes.Buffer
	next, err := r.ReadConsole(t.Context(), testID, 0, &got)
	if err != nil || next != maxConsole || got.Len() != maxConsole {
		t.Errorf("the first read gives %d bytes, next %d, %v; want %d", got.Len(), next, err, maxConsole)
	}
	if next, err = r.ReadConsole(t.Context(), testID, next, &got); err != nil || next != maxConsole+int64(len(fakeConsole)) {
		t.Errorf("the second read: next %d, %v", next, err)
	}
}

func TestReadConsole_refusesWhatGetRefuses(t *testing.T) {
	wantRefusedLikeGet(t, func(ctx context.Context, r *rig, id string) error {
		_, err := r.ReadConsole(ctx, id, 0, io.Discard)
		return err
	})
}

func TestReadConsole_noLogIsSaid(t *testing.T) {
	for name, harm := range map[string]func(r *rig){
		"made without": func(r *rig) {
			r.host.withDomain(testName, func(d *fakeDomain) { d.live.Devices.Serials[0].Log = nil })
		},
		"removed by hand": func(r *rig) {
			r.host.withVolume(testPool, consoleLogName(testName), func(v *fakeVolume) { v.gone = true })
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := created(t)
			harm(r)
			_, err := r.ReadConsole(t.Context(), testID, 0, io.Discard)
			wantErr(t, err, provider.ErrPermanent, provider.ReasonNoConsole)
		})
	}
}

// A log, pool or stream that is missing beside an instance that is there is no proof of its absence.
func TestReadConsole_doubtIsNeverNotFound(t *testing.T) {
	for method, err := range map[string]error{
		"StorageVolDownload":     virErr(libvirt.ErrNoStorageVol, "no storage vol with matching path"),
		"StoragePoolRefresh":     virErr(libvirt.ErrInternalError, "pool 'default' has asynchronous jobs running."),
		"StorageVolLookupByName": virErr(libvirt.ErrSystemError, "I/O error"),
	} {
		r := created(t)
		r.images = newImagesWithin(r.hosts, imageLimits{poll: 1})
		r.host.arm(fault{method: method, err: err})
		_, got := r.ReadConsole(t.Context(), testID, 0, io.Discard)
		if !errors.Is(got, provider.ErrTransient) {
			t.Errorf("%s: error %v, want Transient", method, got)
		}
	}
}

func TestReadConsole_aWriterThatFailsEndsIt(t *testing.T) {
	r := created(t)
	full := errors.New("disk full")
	next, err := r.ReadConsole(t.Context(), testID, 0, writerFunc(func([]byte) (int, error) { return 0, full }))
	if !errors.Is(err, full) || next != 0 {
		t.Errorf("next %d, error %v; want 0 and the writer's", next, err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Whatever virtlogd wrote goes with the instance, and nothing else.
func TestDelete_removesTheConsoleLogs(t *testing.T) {
	r := created(t)
	before := shared(r.host)
	r.host.withPool(testPool, func(p *fakePool) {
		for _, name := range []string{testName + "-console.log.0", testName + "-console.log.12", testName + "-console.log.old", testName + "-console.logs", "x" + testName + "-console.log"} {
			p.volumes = append(p.volumes, &fakeVolume{name: name, format: "raw", mtime: fakeNow(), unlisted: true})
		}
	})
	r.mustDelete(t)
	wantVolumes(t, r.host, append(r.host.volumeNames(testPool)[:len(before)],
		testName+"-console.log.old", testName+"-console.logs", "x"+testName+"-console.log")...)
}
