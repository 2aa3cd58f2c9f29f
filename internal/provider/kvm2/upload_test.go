package kvm2

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

func TestUpload_sendsEveryByte(t *testing.T) {
	for name, size := range map[string]int{"OneByte": 1, "OneChunk": uploadChunk, "ChunkAndOne": uploadChunk + 1, "Several": 5<<20 + 17} {
		t.Run(name, func(t *testing.T) {
			peer := newRPCPeer().acceptUploads()
			c := openTestConn(t, peer, defaultLimits())
			data := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
			if err := c.StorageVolUpload(t.Context(), volume{}, bytes.NewReader(data), uint64(size)); err != nil {
				t.Fatalf("upload: %v", err)
			}
			got, ends := peer.body()
			if !bytes.Equal(got, data) || len(ends) != 1 || ends[0] != statusOK {
				t.Errorf("the peer got %d bytes and the ends %v; want the %d bytes and one good end", len(got), ends, size)
			}
		})
	}
}

func TestUpload_ofNothing(t *testing.T) {
	peer := newRPCPeer().acceptUploads()
	c := openTestConn(t, peer, defaultLimits())
	if err := c.StorageVolUpload(t.Context(), volume{}, strings.NewReader(""), 0); err != nil {
		t.Errorf("upload of nothing: %v", err)
	}
	if n := peer.calls(procStorageVolUpload); n != 0 {
		t.Errorf("%d uploads reached libvirt, to which a length of 0 means no limit", n)
	}
	err := c.StorageVolUpload(t.Context(), volume{}, strings.NewReader("x"), 0)
	wantError(t, err, provider.ErrTransient, provider.ReasonBackendError, "goes on after its declared 0 bytes")
}

func TestUpload_wrongLengthIsAnError(t *testing.T) {
	tests := map[string]struct {
		reason string
		data   int
		length uint64
		says   string
	}{
		"EndsEarly":          {"the library calls it a success", 1000, 1001, "ended after 1000 of 1001 bytes"},
		"EndsEarlyEmpty":     {"", 0, 5, "ended after 0 of 5 bytes"},
		"EndsEarlyLarge":     {"", 2<<20 + 5, 3 << 20, "ended after 2097157 of 3145728 bytes"},
		"GoesOn":             {"", 1001, 1000, "goes on after its declared 1000 bytes"},
		"GoesOnAtChunksSize": {"", uploadChunk + 1, uploadChunk, "goes on"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			peer := newRPCPeer().acceptUploads()
			c := openTestConn(t, peer, defaultLimits())
			err := c.StorageVolUpload(t.Context(), volume{}, bytes.NewReader(make([]byte, tc.data)), tc.length)
			wantError(t, err, provider.ErrTransient, provider.ReasonBackendError, tc.says, "beelink")
			if _, ends := peer.body(); len(ends) != 1 || ends[0] != statusError {
				t.Errorf("the stream ended with %v, want an abort: %s", ends, tc.reason)
			}
		})
	}
}

// TestUpload_libvirtErrorMidStream: libvirt ends the stream before the data does.
func TestUpload_libvirtErrorMidStream(t *testing.T) {
	peer := newRPCPeer().on(procStorageVolUpload, func(r *rpcRequest) {
		if r.kind == typeCall {
			r.reply(nil)
			r.stream(statusError, xdrError(38, "no space left on device"))
		}
	})
	c := openTestConn(t, peer, defaultLimits())
	err := c.StorageVolUpload(t.Context(), volume{}, bytes.NewReader(make([]byte, 64)), 64)
	var answer libvirt.Error
	if !errors.As(err, &answer) || answer.Code != 38 {
		t.Errorf("error is %v, want libvirt's own", err)
	}
}

// TestUpload_repeatedEndsHarmNothing: the library would block for ever on a message to a stream that it
// has left.
func TestUpload_repeatedEndsHarmNothing(t *testing.T) {
	for name, end := range map[string]func(*rpcRequest){
		"OK":       func(r *rpcRequest) { r.stream(statusOK, nil) },
		"Continue": func(r *rpcRequest) { r.stream(statusContinue, nil) },
		"Error":    func(r *rpcRequest) { r.stream(statusError, xdrError(38, "no space left on device")) },
	} {
		t.Run(name, func(t *testing.T) {
			peer := newRPCPeer().on(procStorageVolUpload, func(r *rpcRequest) {
				switch {
				case r.kind == typeCall:
					r.reply(nil)
					r.stream(statusContinue, []byte("data that nobody asked for"))
				case r.status == statusOK:
					for range 5 {
						end(r)
					}
				}
			}).on(procConnectGetHostname, func(r *rpcRequest) { r.reply(xdr("kvm")) })
			c := openTestConn(t, peer, defaultLimits())
			within(t, 2*time.Second, "an upload whose end comes five times", func() {
				_ = c.StorageVolUpload(t.Context(), volume{}, strings.NewReader("data"), 4)
			})
			within(t, 2*time.Second, "the next call", func() {
				if _, err := c.ConnectGetHostname(t.Context()); err != nil {
					t.Errorf("the connection is of no use after the upload: %v", err)
				}
			})
		})
	}
}

func TestUpload_readerErrorIsReported(t *testing.T) {
	broken := errors.New("mirror went away")
	for name, answersAborts := range map[string]bool{"AbortAnswered": true, "AbortIgnored": false} {
		t.Run(name, func(t *testing.T) {
			peer := newRPCPeer()
			if answersAborts {
				peer.acceptUploads()
			} else {
				peer.on(procStorageVolUpload, func(r *rpcRequest) {
					if r.kind == typeCall {
						r.reply(nil)
					}
				})
			}
			l := defaultLimits()
			l.closing = 100 * time.Millisecond
			c := openTestConn(t, peer, l)
			r := io.MultiReader(bytes.NewReader(make([]byte, 100)), iotest.ErrReader(broken))
			var err error
			within(t, 2*time.Second, "an upload whose source breaks", func() { err = c.StorageVolUpload(t.Context(), volume{}, r, 200) })
			if !errors.Is(err, broken) {
				t.Errorf("error is %v, want the reader's", err)
			}
		})
	}
}

func TestUpload_cancelReturnsPromptly(t *testing.T) {
	peer := newRPCPeer().on(procStorageVolUpload, func(r *rpcRequest) {
		if r.kind == typeCall {
			r.reply(nil)
		}
	})
	c := openTestConn(t, peer, defaultLimits())
	ctx, cancel := context.WithCancel(t.Context())
	var reads atomic.Int32
	r := readerFunc(func(p []byte) (int, error) {
		if reads.Add(1) == 3 {
			cancel()
		}
		return len(p), nil
	})
	var err error
	within(t, time.Second, "a cancelled upload", func() { err = c.StorageVolUpload(ctx, volume{}, r, 1<<40) })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want ctx's own", err)
	}
	within(t, time.Second, "the close of the given up connection", func() { <-peer.closed })
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestUpload_capIsATimeout(t *testing.T) {
	peer := newRPCPeer().on(procStorageVolUpload, func(r *rpcRequest) {
		if r.kind == typeCall {
			r.reply(nil)
		}
	})
	l := defaultLimits()
	l.upload = 100 * time.Millisecond
	c := openTestConn(t, peer, l)
	var err error
	within(t, time.Second, "an upload that libvirt never acknowledges", func() {
		err = c.StorageVolUpload(t.Context(), volume{}, strings.NewReader("x"), 1)
	})
	wantError(t, err, provider.ErrTransient, provider.ReasonTimeout, "StorageVolUpload")
}

// TestUpload_connectionLostIsTransient: the partial volume stays, the caller knows that nothing is sure.
func TestUpload_connectionLostIsTransient(t *testing.T) {
	peer := newRPCPeer()
	peer.on(procStorageVolUpload, func(r *rpcRequest) {
		if r.kind == typeCall {
			r.reply(nil)
			r.hangUp()
		}
	})
	c := openTestConn(t, peer, defaultLimits())
	err := c.StorageVolUpload(t.Context(), volume{}, bytes.NewReader(make([]byte, 8<<20)), 8<<20)
	wantError(t, err, provider.ErrTransient, provider.ReasonUnreachable, "not known")
}

// TestExactReader_stoppedReadsNoMore: a goroutine of the library outlives a failed upload.
func TestExactReader_stoppedReadsNoMore(t *testing.T) {
	source := strings.NewReader("data")
	e := newExactReader(source, 4, func() {})
	e.stop()
	if n, err := e.Read(make([]byte, 4)); n != 0 || !errors.Is(err, errUploadOver) || source.Len() != 4 {
		t.Errorf("Read after stop = %d, %v with %d bytes left in the source; want it untouched", n, err, source.Len())
	}
}

func TestExactReader_readsInOneMiB(t *testing.T) {
	e := newExactReader(iotest.HalfReader(bytes.NewReader(make([]byte, 3<<20+5))), 3<<20+5, func() {})
	buf := make([]byte, 4<<20)
	var sizes []int
	for {
		n, err := e.Read(buf)
		if n > 0 {
			sizes = append(sizes, n)
		}
		if err != nil {
			break
		}
	}
	if len(sizes) != 4 || sizes[0] != uploadChunk || sizes[3] != 5 {
		t.Errorf("reads of %v bytes, want 1 MiB each and the rest: that is what the library sends fastest", sizes)
	}
}
