//go:build integration

package cloudinit_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"
)

// visit is one connection that reached an origin, and the request on it, if one came.
type visit struct {
	// At is the address and port that was connected to.
	At     netip.AddrPort
	Header http.Header
	URI    string
	Host   string
}

// origins are HTTP servers on every address outside and on the proxy's own ones. They remember who came.
type origins struct {
	mu     sync.Mutex
	visits []visit
	marks  []func() // each returns when its listener has noted whoever came before
}

var originPorts = []string{"25", "53", "80", "443", "3129", "8080", "9999"}

// startOrigins serves HTTP on originPorts, TLS on 443.
func startOrigins(t *testing.T) *origins {
	t.Helper()
	o := &origins{}
	certificate := selfSigned(t)
	for _, port := range originPorts {
		listen := func(dial func(address string) (net.Conn, error)) {
			l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "[::]:"+port)
			if err != nil {
				t.Fatalf("listen: %v", err)
			}
			noting := &notingListener{Listener: l, o: o, marks: make(chan net.Addr)}
			o.marks = append(o.marks, func() { noting.mark(t, dial) })
			o.serve(t, noting, port == "443", certificate)
		}
		listen(dialInside) // the proxy's own addresses
		if err := inOutside(func() error { listen(dialOutside); return nil }); err != nil {
			t.Fatalf("enter the outside: %v", err)
		}
	}
	return o
}

func dialInside(address string) (net.Conn, error) { return net.Dial("tcp", address) }

func dialOutside(address string) (conn net.Conn, err error) {
	err = inOutside(func() (err error) { conn, err = dialInside(address); return err })
	return conn, err
}

// notingListener notes each connection before anything else happens with it.
type notingListener struct {
	net.Listener
	o     *origins
	marks chan net.Addr
}

func (l *notingListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		at := localAddr(c.LocalAddr())
		if at.Addr() == markAddr {
			l.marks <- c.RemoteAddr()
			c.Close()
			continue
		}
		l.o.note(visit{At: at})
		return c, nil
	}
}

// markAddr is where only marks go: no test asks the proxy for it.
var markAddr = netip.MustParseAddr("127.0.0.77")

// mark returns when the listener has accepted whoever connected before: connections queue up.
func (l *notingListener) mark(t *testing.T, dial func(string) (net.Conn, error)) {
	t.Helper()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	c, err := dial(net.JoinHostPort(markAddr.String(), port))
	if err != nil {
		t.Fatalf("mark: %v", err)
	}
	defer c.Close()
	<-l.marks
}

func (o *origins) serve(t *testing.T, l net.Listener, withTLS bool, certificate tls.Certificate) {
	t.Helper()
	if withTLS {
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{certificate}})
	}
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			o.note(visit{At: localAddr(r.Context().Value(http.LocalAddrContextKey).(net.Addr)), Header: r.Header, URI: r.RequestURI, Host: r.Host})
			w.Header().Set("Cache-Control", "public, max-age=3600")
			w.Write([]byte(netip.MustParseAddrPort(r.RemoteAddr).Addr().Unmap().String()))
		}),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0), // peers that go away
	}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
}

func (o *origins) note(v visit) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.visits = append(o.visits, v)
}

// take gives what came since the last call.
func (o *origins) take() []visit {
	for _, mark := range o.marks {
		mark()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	out := o.visits
	o.visits = nil
	return out
}

// requests gives the HTTP requests that came since the last call.
func (o *origins) requests() []visit {
	return slices.DeleteFunc(o.take(), func(v visit) bool { return v.Header == nil })
}

func localAddr(a net.Addr) netip.AddrPort {
	ap := a.(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
}

func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"public.test"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
