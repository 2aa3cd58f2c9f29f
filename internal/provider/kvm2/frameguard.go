package kvm2

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// maxFrame is the longest frame of libvirt's protocol (VIR_NET_MESSAGE_MAX).
const maxFrame = 32 << 20

// errClosed: this side ended the connection.
var errClosed = errors.New("the connection was closed")

// frameGuard stands between a forwarded channel and the library, which trusts every byte: a frame
// shorter than its header panics in a goroutine of its own, where nobody can recover, a long one is
// allocated whole. The guard passes on only whole, sound frames that answer a call in flight.
//
// The library reads from one goroutine and writes under a lock of its own.
type frameGuard struct {
	net.Conn
	calls *rpcCalls
	ready []byte // passed frames that the library has not read yet

	mu   sync.Mutex
	err  error         // why the connection is dead
	dead chan struct{} // closed with err set

	connected  chan struct{} // closed when the library's Connect has returned
	readerOnce sync.Once
	readerDone chan struct{} // closed when the library has seen the end
}

func newFrameGuard(raw net.Conn) *frameGuard {
	return &frameGuard{
		Conn: raw, calls: newRPCCalls(),
		dead: make(chan struct{}), connected: make(chan struct{}), readerDone: make(chan struct{}),
	}
}

// Read gives the library bytes of sound frames. Its errors are never a *net.OpError, on which the
// library would try again for ever.
func (g *frameGuard) Read(p []byte) (int, error) {
	for len(g.ready) == 0 {
		if err := g.nextFrame(); err != nil {
			g.awaitConnect()
			g.fail(err)
			g.readerOnce.Do(func() { close(g.readerDone) })
			return 0, fmt.Errorf("read from libvirt: %w", g.failure())
		}
	}
	n := copy(p, g.ready)
	g.ready = g.ready[n:]
	return n, nil
}

// awaitConnect holds the end of the connection back while Connect is about to return with success:
// the library sets a field then that its reader looks at on the end, without a lock.
func (g *frameGuard) awaitConnect() {
	if g.calls.wasOpened() {
		<-g.connected
	}
}

func (g *frameGuard) nextFrame() error {
	if err := g.failure(); err != nil {
		return err
	}
	head := make([]byte, frameHeaderSize)
	if _, err := io.ReadFull(g.Conn, head[:4]); err != nil {
		return fmt.Errorf("the far end closed the connection: %w", err)
	}
	length := binary.BigEndian.Uint32(head)
	if length < frameHeaderSize || length > maxFrame {
		return fmt.Errorf("%w: a frame of %d bytes", errNotLibvirt, length)
	}
	if _, err := io.ReadFull(g.Conn, head[4:]); err != nil {
		return fmt.Errorf("the connection ended inside a frame: %w", err)
	}
	frame := bytes.NewBuffer(head) // grows with what comes, not with what is announced
	_, err := io.CopyN(frame, g.Conn, int64(length)-frameHeaderSize)
	if err != nil {
		return fmt.Errorf("the connection ended inside a frame: %w", err)
	}
	g.ready, err = g.calls.passed(frame.Bytes())
	return err
}

// Write sends what the library wrote.
func (g *frameGuard) Write(p []byte) (int, error) {
	if err := g.failure(); err != nil {
		return 0, err
	}
	g.calls.sending(p)
	n, err := g.Conn.Write(p)
	if err != nil {
		g.fail(fmt.Errorf("write to libvirt: %w", err))
		return n, err
	}
	g.calls.written()
	return n, nil
}

// Close ends the connection. It never blocks: the far end's acknowledgement is not waited for.
func (g *frameGuard) Close() error {
	g.fail(errClosed)
	return nil
}

// fail marks the connection dead for the first reason given, and closes the channel.
func (g *frameGuard) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return
	}
	g.err = err
	close(g.dead)
	g.calls.close()
	go func() { _ = g.Conn.Close() }() // on a dead link it blocks until the link is cut
}

// failure gives the reason why the connection is dead, or nil.
func (g *frameGuard) failure() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}
