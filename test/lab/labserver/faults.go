package main

import (
	"context"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"time"
)

// addFaults adds the addresses that behave badly on purpose. PATH is that of a served file, without its
// first slash; a number that cannot be read is 400.
//
//	/fault/status/CODE            answers with that status
//	/fault/redirect/PATH          302 to the file
//	/fault/corrupt/PATH           the right length, the last byte wrong
//	/fault/nolength/PATH          the whole file, without Content-Length
//	/fault/short/BYTES/PATH       declares the whole length, closes after BYTES
//	/fault/stall/BYTES/PATH       declares the whole length, goes silent after BYTES
//	/fault/slow/BYTES/PATH        the whole file at about BYTES a second
func addFaults(mux *http.ServeMux, dirs dirFlag) {
	mux.HandleFunc("/fault/status/{code}", func(w http.ResponseWriter, r *http.Request) {
		code, err := strconv.Atoi(r.PathValue("code"))
		if err != nil || code < 200 || code > 599 {
			http.Error(w, "the status must be a number from 200 to 599", http.StatusBadRequest)
			return
		}
		w.WriteHeader(code)
	})
	mux.HandleFunc("/fault/redirect/{path...}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/"+r.PathValue("path"), http.StatusFound) //nolint:gosec // it redirects wherever a test asks
	})
	mux.HandleFunc("/fault/corrupt/{dir}/{path...}", dirs.fault(sendCorrupt))
	mux.HandleFunc("/fault/nolength/{dir}/{path...}", dirs.fault(sendWithoutLength))
	mux.HandleFunc("/fault/short/{bytes}/{dir}/{path...}", dirs.fault(sendShort))
	mux.HandleFunc("/fault/stall/{bytes}/{dir}/{path...}", dirs.fault(sendAndStall))
	mux.HandleFunc("/fault/slow/{bytes}/{dir}/{path...}", dirs.fault(sendSlowly))
}

// transfer is one file to be sent badly.
type transfer struct {
	file  fs.File
	size  int64
	bytes int64 // the {bytes} of the address, at least 1; 0 where it has none
}

// fault opens the file that the address names and hands it to send.
func (d dirFlag) fault(send func(context.Context, http.ResponseWriter, transfer)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		t := transfer{}
		if text := r.PathValue("bytes"); text != "" {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil || n < 1 {
				http.Error(w, "bytes must be a number above 0", http.StatusBadRequest)
				return
			}
			t.bytes = n
		}
		dir, ok := d[r.PathValue("dir")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		file, err := filesOnly{os.DirFS(dir)}.Open(r.PathValue("path"))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		defer func() { _ = file.Close() }() // opened for reading only
		info, err := file.Stat()
		if err != nil {
			http.Error(w, "the file cannot be read", http.StatusInternalServerError)
			return
		}
		t.file, t.size = file, info.Size()
		send(r.Context(), w, t)
	}
}

func declare(w http.ResponseWriter, size int64) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
}

// In the senders below a failed write means that the client has gone: the fault is over.

func sendCorrupt(_ context.Context, w http.ResponseWriter, t transfer) {
	declare(w, t.size)
	if _, err := io.CopyN(w, t.file, t.size-1); err != nil {
		return
	}
	last := make([]byte, 1)
	if _, err := io.ReadFull(t.file, last); err != nil {
		return
	}
	_, _ = w.Write([]byte{^last[0]})
}

func sendWithoutLength(_ context.Context, w http.ResponseWriter, t transfer) {
	// A flush before the body is whole makes the answer chunked.
	if err := http.NewResponseController(w).Flush(); err != nil {
		return
	}
	_, _ = io.Copy(w, t.file)
}

func sendShort(_ context.Context, w http.ResponseWriter, t transfer) {
	declare(w, t.size)
	_, _ = io.CopyN(w, t.file, min(t.bytes, t.size))
	// Fewer bytes than declared: net/http closes the connection.
}

func sendAndStall(ctx context.Context, w http.ResponseWriter, t transfer) {
	declare(w, t.size)
	if _, err := io.CopyN(w, t.file, min(t.bytes, t.size-1)); err != nil {
		return
	}
	if err := http.NewResponseController(w).Flush(); err != nil {
		return
	}
	<-ctx.Done()
}

// slowTick is how often sendSlowly sends its share.
const slowTick = 100 * time.Millisecond

func sendSlowly(ctx context.Context, w http.ResponseWriter, t transfer) {
	declare(w, t.size)
	share := max(1, t.bytes*int64(slowTick)/int64(time.Second))
	ticker := time.NewTicker(slowTick)
	defer ticker.Stop()
	for sent := int64(0); sent < t.size; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		n, err := io.CopyN(w, t.file, min(share, t.size-sent))
		if err != nil {
			return
		}
		sent += n
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
	}
}
