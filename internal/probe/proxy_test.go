package probe_test

import (
	"bufio"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listen serves each connection with handle, and waits for all of them when the test ends.
func listen(t *testing.T, handle func(net.Conn)) (endpoint string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				handle(conn)
			})
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return l.Addr().String()
}

// says gives a peer that reads one request's header, sends text and closes.
func says(text string) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			io.WriteString(conn, text)
		}
	}
}

// asked is one request that a relay got.
type asked struct {
	Method, Target, Credential string
	Header                     http.Header
}

// relay is a forward proxy that wants user and password "u:p", if any.
type relay struct {
	credential string // of the Proxy-Authorization header; empty: any
	mu         sync.Mutex
	got        []asked
}

func (r *relay) handle(conn net.Conn) {
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	r.mu.Lock()
	r.got = append(r.got, asked{req.Method, req.RequestURI, req.Header.Get("Proxy-Authorization"), req.Header})
	r.mu.Unlock()
	if r.credential != "" && req.Header.Get("Proxy-Authorization") != r.credential {
		io.WriteString(conn, "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n")
		return
	}
	upstream, err := net.Dial("tcp", req.Host)
	if err != nil {
		io.WriteString(conn, "HTTP/1.1 503 Service Unavailable\r\nX-Squid-Error: ERR_CONNECT_FAIL 111\r\nContent-Length: 0\r\n\r\n")
		return
	}
	defer upstream.Close()
	if req.Method == http.MethodConnect {
		io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
		var up sync.WaitGroup
		up.Go(func() { io.Copy(upstream, conn); upstream.Close() })
		io.Copy(conn, upstream)
		conn.Close()
		up.Wait()
		return
	}
	req.Header.Del("Proxy-Authorization")
	req.Write(upstream)
	io.Copy(conn, upstream)
}

func (r *relay) requests() []asked {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got
}

// origin answers with status and body.
func origin(t *testing.T, status int, body string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(answering(status, body))
	t.Cleanup(s.Close)
	return s
}

func tlsOrigin(t *testing.T, status int, body string) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(answering(status, body))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that do not trust it
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func answering(status int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status/100 == 3 {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	})
}
