package main

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// serve ends with its ctx and leaves nothing running, even with a request that would never end.
func TestServe_endsWithContext(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithCancel(t.Context())
	address := freeAddress(t)
	inside := make(chan struct{})
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(inside)
		<-r.Context().Done()
	})
	done := make(chan error, 1)
	go func() { done <- serve(ctx, site{addr: address, handler: handler}) }()
	go func() {
		for {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
			if err != nil {
				continue
			}
			_, _ = conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
			<-inside
			cancel()
			_ = conn.Close()
			return
		}
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("serve returned %v, expected nil: its ctx was cancelled", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("serve did not return within 10s of its ctx's end")
	}
}

func TestServe_saysWhichAddressIsTaken(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	address := listener.Addr().String()
	err = serve(t.Context(), site{addr: address, handler: http.NotFoundHandler()})
	if err == nil || !strings.Contains(err.Error(), address) {
		t.Errorf("serve on a taken address returned %v, expected an error that names %s", err, address)
	}
}
