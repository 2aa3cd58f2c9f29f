package kvm2

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// uploadChunk is the size of the reads that the library gets. It sends each as one message; with 1 MiB
// an upload is fastest, with the 4 MiB that the library asks for eight times slower.
const uploadChunk = 1 << 20

// exactReader hands on exactly length bytes of a reader. The library takes an early end for success, so
// that a short volume would be published, and sends on what is beyond the declared length.
type exactReader struct {
	r      io.Reader
	length uint64
	read   atomic.Uint64
	ended  atomic.Bool // the reader's own end was seen, in its place
	halted atomic.Bool

	failOnce sync.Once
	onFail   func()
	failed   atomic.Pointer[error]
}

// newExactReader calls onFail once when the reader fails or its length is wrong.
func newExactReader(r io.Reader, length uint64, onFail func()) *exactReader {
	return &exactReader{r: r, length: length, onFail: onFail}
}

// errUploadOver is what the library gets when it reads on after the upload was given up.
var errUploadOver = errors.New("the upload is over")

// Read fills up to 1 MiB of p.
func (e *exactReader) Read(p []byte) (int, error) {
	if e.halted.Load() {
		return 0, errUploadOver
	}
	left := e.length - e.read.Load()
	if left == 0 {
		return 0, e.readEnd()
	}
	n, err := io.ReadFull(e.r, p[:min(uint64(len(p)), uploadChunk, left)])
	total := e.read.Add(uint64(n)) //nolint:gosec // n is not negative
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return n, e.fail(provider.Errorf(provider.ErrTransient, provider.ReasonBackendError,
			"the data ended after %d of %d bytes: %w", total, e.length, io.ErrUnexpectedEOF))
	}
	return n, e.fail(fmt.Errorf("read the data after %d of %d bytes: %w", total, e.length, err))
}

// readEnd checks that nothing comes after the last byte.
func (e *exactReader) readEnd() error {
	var one [1]byte
	n, err := io.ReadFull(e.r, one[:])
	switch {
	case n > 0:
		return e.fail(provider.Errorf(provider.ErrTransient, provider.ReasonBackendError,
			"the data goes on after its declared %d bytes", e.length))
	case errors.Is(err, io.EOF):
		e.ended.Store(true)
		return io.EOF
	}
	return e.fail(fmt.Errorf("read the end of the data: %w", err))
}

func (e *exactReader) fail(err error) error {
	e.failOnce.Do(func() {
		e.failed.Store(&err)
		e.onFail()
	})
	return err
}

// failure gives the reader's error, or that of its length.
func (e *exactReader) failure() error {
	if err := e.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// finish tells whether everything was sent, after an upload that libvirt called complete.
func (e *exactReader) finish() error {
	if e.length == 0 {
		if err := e.readEnd(); !errors.Is(err, io.EOF) {
			return err
		}
		return nil
	}
	if !e.ended.Load() {
		return provider.Errorf(provider.ErrTransient, provider.ReasonBackendError,
			"libvirt ended the upload after %d of %d bytes", e.read.Load(), e.length)
	}
	return nil
}

// stop keeps a library goroutine that outlives the call from reading on.
func (e *exactReader) stop() { e.halted.Store(true) }
