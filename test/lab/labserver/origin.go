package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// seen is what the origin observed of one request.
type seen struct {
	Address string      `json:"address"` // the client's, without the port
	Method  string      `json:"method"`
	Host    string      `json:"host"`
	Path    string      `json:"path"`
	TLS     bool        `json:"tls"`
	Headers http.Header `json:"headers"`
}

func runOrigin(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("origin", flag.ContinueOnError)
	addresses := flags.String("address", "", "addresses to listen on, comma separated; ports 80 and 443 of each")
	ca := flags.String("ca", "", "directory that labserver ca wrote")
	if err := flags.Parse(args); err != nil {
		return err
	}
	cert, err := tls.LoadX509KeyPair(originCertFile(*ca), originKeyFile(*ca))
	if err != nil {
		return fmt.Errorf("loading the origin's certificate, run labserver ca first: %w", err)
	}
	var sites []site
	for address := range strings.SplitSeq(*addresses, ",") {
		sites = append(sites,
			site{addr: net.JoinHostPort(address, "80"), handler: originHandler()},
			site{addr: net.JoinHostPort(address, "443"), handler: originHandler(), cert: &cert})
	}
	return serve(ctx, sites...)
}

// originHandler answers / with the client's address and a newline as plain text, /json with seen, and
// /headers with the request's headers as a JSON object of lists. Any other path is 404.
func originHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = fmt.Fprintln(w, observe(r).Address) // the client is gone: nobody is left to tell
	})
	mux.HandleFunc("/json", func(w http.ResponseWriter, r *http.Request) { writeJSON(w, observe(r)) })
	mux.HandleFunc("/headers", func(w http.ResponseWriter, r *http.Request) { writeJSON(w, observe(r).Headers) })
	return mux
}

func observe(r *http.Request) seen {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr
	}
	return seen{
		Address: address, Method: r.Method, Host: r.Host, Path: r.URL.Path,
		TLS: r.TLS != nil, Headers: r.Header,
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client is gone: nobody is left to tell
}
