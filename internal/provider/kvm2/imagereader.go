package kvm2

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"sync/atomic"
	"time"
)

// reportEvery is the time between two progress reports.
const reportEvery = 250 * time.Millisecond

// imageReader hashes and counts an image as it passes, in one go and without keeping it.
type imageReader struct {
	length uint64

	source   *bufio.Reader
	sum      hash.Hash
	passed   uint64
	reported time.Time
	report   func(done, total uint64)
	failed   atomic.Pointer[error]
}

func newImageReader(r io.Reader, length uint64, report func(done, total uint64)) *imageReader {
	return &imageReader{length: length, source: bufio.NewReaderSize(r, headBytes), sum: sha256.New(), report: report}
}

// peek gives the first n bytes, or all if there are fewer, and leaves them to be read.
func (r *imageReader) peek(n int) ([]byte, error) {
	head, err := r.source.Peek(n)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return head, err
}

// Read implements io.Reader.
func (r *imageReader) Read(p []byte) (int, error) {
	n, err := r.source.Read(p)
	_, _ = r.sum.Write(p[:n]) // a hash never fails
	r.passed += uint64(n)     //nolint:gosec // n is not negative
	if now := time.Now(); r.passed == r.length || now.Sub(r.reported) >= reportEvery {
		r.reported = now
		r.report(r.passed, r.length)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		r.failed.Store(&err)
	}
	return n, err
}

// failure gives the source's own error, which is nearer the cause than that of an upload of it.
func (r *imageReader) failure() error {
	if err := r.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// sha256 is that of what was read so far, in hex. It may not be called while a Read is under way.
func (r *imageReader) sha256() string { return hex.EncodeToString(r.sum.Sum(nil)) }
