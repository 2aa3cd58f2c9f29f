package kvm2

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"
)

// rpcPeer is a scripted libvirt daemon on the far end of a connection. Procedures without an answer
// of their own are never answered; the greeting is, unless the script says otherwise.
type rpcPeer struct {
	mu      sync.Mutex
	answers map[uint32]func(*rpcRequest)
	// seen has the calls in the order of their arrival, the greeting included.
	seen []uint32
	// received has the bytes of uploads, ends their closing statuses.
	received []byte
	ends     []uint32
	// closed gets a value whenever a connection has ended.
	closed chan struct{}
	conns  sync.WaitGroup
}

func newRPCPeer() *rpcPeer {
	p := &rpcPeer{answers: map[uint32]func(*rpcRequest){}, closed: make(chan struct{}, 1000)}
	p.on(procAuthList, func(r *rpcRequest) { r.reply(xdr(uint32(1), uint32(0))) })
	p.on(procConnectOpen, func(r *rpcRequest) { r.reply(nil) })
	return p
}

// on sets the answer to a procedure. It runs in the connection's reader.
func (p *rpcPeer) on(procedure uint32, answer func(*rpcRequest)) *rpcPeer {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[procedure] = answer
	return p
}

// calls counts what was seen of a procedure.
func (p *rpcPeer) calls(procedure uint32) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, s := range p.seen {
		if s == procedure {
			n++
		}
	}
	return n
}

// body gives the bytes of all uploads, and the statuses that ended them.
func (p *rpcPeer) body() (data []byte, ends []uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.received, p.ends
}

// connect gives the near end of a connection to the peer.
func (p *rpcPeer) connect() net.Conn {
	near, far := net.Pipe()
	p.conns.Go(func() { p.serve(far) })
	return near
}

// listen serves on a real unix socket until the test ends.
func (p *rpcPeer) listen(t *testing.T, path string) {
	t.Helper()
	var cfg net.ListenConfig
	l, err := cfg.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatalf("listen on %s: %v", path, err)
	}
	p.conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.conns.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() { l.Close(); p.conns.Wait() })
}

// rpcRequest is one frame that came, and the way to answer it.
type rpcRequest struct {
	frameHeader
	body []byte
	peer *rpcPeer
	conn *peerConn
}

// peerConn writes whole frames.
type peerConn struct {
	net.Conn
	mu sync.Mutex
}

func (p *rpcPeer) serve(raw net.Conn) {
	c := &peerConn{Conn: raw}
	defer func() { raw.Close(); p.closed <- struct{}{} }()
	for {
		head := make([]byte, frameHeaderSize)
		if _, err := io.ReadFull(raw, head); err != nil {
			return
		}
		r := &rpcRequest{frameHeader: parseFrameHeader(head), peer: p, conn: c}
		r.body = make([]byte, int(binary.BigEndian.Uint32(head))-frameHeaderSize)
		if _, err := io.ReadFull(raw, r.body); err != nil {
			return
		}
		p.dispatch(r)
	}
}

func (p *rpcPeer) dispatch(r *rpcRequest) {
	p.mu.Lock()
	answer := p.answers[r.procedure]
	switch {
	case r.kind == typeCall:
		p.seen = append(p.seen, r.procedure)
	case r.status == statusContinue:
		p.received = append(p.received, r.body...)
		answer = nil
	default:
		p.ends = append(p.ends, r.status)
	}
	p.mu.Unlock()
	if answer != nil {
		answer(r)
	}
}

// reply answers a call with its results.
func (r *rpcRequest) reply(body []byte) { r.send(r.procedure, typeReply, statusOK, body) }

// fail answers with an error of libvirt's.
func (r *rpcRequest) fail(code uint32, message string) {
	r.send(r.procedure, typeReply, statusError, xdrError(code, message))
}

// stream sends a message of the call's stream.
func (r *rpcRequest) stream(status uint32, body []byte) {
	r.send(r.procedure, typeStream, status, body)
}

func (r *rpcRequest) send(procedure, kind, status uint32, body []byte) {
	r.raw(frame(r.program, procedure, kind, r.serial, status, body))
}

// raw sends bytes as they are.
func (r *rpcRequest) raw(b []byte) {
	r.conn.mu.Lock()
	defer r.conn.mu.Unlock()
	_, _ = r.conn.Write(b) // the near end may be gone
}

// hangUp ends the connection.
func (r *rpcRequest) hangUp() { r.conn.Close() }

// acceptUploads makes the peer take uploads as libvirtd does.
func (p *rpcPeer) acceptUploads() *rpcPeer {
	return p.on(procStorageVolUpload, func(r *rpcRequest) {
		switch {
		case r.kind == typeCall:
			r.reply(nil)
		case r.status == statusOK:
			r.stream(statusOK, nil)
		case r.status == statusError:
			r.stream(statusError, xdrError(38, "stream aborted at client request"))
		}
	})
}

// frame builds a frame of libvirt's protocol.
func frame(program, procedure, kind uint32, serial int32, status uint32, body []byte) []byte {
	length := uint32(frameHeaderSize + len(body))
	return append(xdr(length, program, uint32(1), procedure, kind, uint32(serial), status), body...)
}

// xdr encodes uint32, int32, uint64, string, [16]byte and raw bytes.
func xdr(values ...any) []byte {
	var b []byte
	for _, v := range values {
		switch v := v.(type) {
		case uint32:
			b = binary.BigEndian.AppendUint32(b, v)
		case int32:
			b = binary.BigEndian.AppendUint32(b, uint32(v))
		case uint64:
			b = binary.BigEndian.AppendUint64(b, v)
		case string:
			b = binary.BigEndian.AppendUint32(b, uint32(len(v)))
			b = append(b, v...)
			b = append(b, make([]byte, (4-len(v)%4)%4)...)
		case [16]byte:
			b = append(b, v[:]...)
		case []byte:
			b = append(b, v...)
		default:
			panic("xdr: no encoding for this type")
		}
	}
	return b
}

// xdrError encodes a remote_error as far as the library reads it: code, domain, a present message, level.
func xdrError(code uint32, message string) []byte {
	return xdr(code, uint32(10), uint32(1), message, uint32(2))
}

func xdrDomain(d domain) []byte { return xdr(d.Name, d.UUID, d.ID) }

// openTestConn connects the adapter to a peer without SSH in between.
func openTestConn(t *testing.T, p *rpcPeer, l limits) *libvirtConn {
	t.Helper()
	guard := newFrameGuard(p.connect())
	rpc := libvirt.NewWithDialer(dialers.NewAlreadyConnected(guard))
	if err := connectRPC(rpc, guard); err != nil {
		t.Fatalf("connect to the scripted peer: %v", err)
	}
	c := newLibvirtConn(rpc, guard, "beelink", l)
	t.Cleanup(func() { _ = c.Close(); p.conns.Wait() })
	return c
}
