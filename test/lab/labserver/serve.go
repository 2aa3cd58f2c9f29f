package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

const (
	headerTimeout   = 10 * time.Second
	shutdownTimeout = 2 * time.Second
)

// site is one listener and what answers on it.
type site struct {
	addr    string // host:port
	handler http.Handler
	cert    *tls.Certificate // nil for plain HTTP
}

// serve runs all sites until ctx is done or one of them fails. Requests that are in flight then get
// shutdownTimeout. There is no write timeout: the slow faults need none, and the lab is the only client.
func serve(ctx context.Context, sites ...site) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	servers := make([]*http.Server, 0, len(sites))
	for _, s := range sites {
		listener, err := listen(ctx, s)
		if err != nil {
			stop(ctx, servers)
			return err
		}
		server := &http.Server{Handler: s.handler, ReadHeaderTimeout: headerTimeout}
		servers = append(servers, server)
		go func() {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				cancel(fmt.Errorf("serving on %s: %w", s.addr, err))
			}
		}()
	}
	<-ctx.Done()
	stop(ctx, servers)
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func listen(ctx context.Context, s site) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.addr)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", s.addr, err)
	}
	if s.cert == nil {
		return listener, nil
	}
	return tls.NewListener(listener, &tls.Config{
		Certificates: []tls.Certificate{*s.cert},
		MinVersion:   tls.VersionTLS12,
	}), nil
}

func stop(ctx context.Context, servers []*http.Server) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	for _, server := range servers {
		if err := server.Shutdown(ctx); err != nil {
			_ = server.Close() // what would not end in time is cut, which is what a lab that goes down means
		}
	}
}
