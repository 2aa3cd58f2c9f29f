package kvm2

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
)

// Numbers of libvirt's RPC framing (virnetprotocol.x).
const (
	frameHeaderSize = 28 // the length's own four bytes included
	remoteProgram   = 0x20008086
	qemuProgram     = 0x20008087

	typeCall   = 0
	typeReply  = 1
	typeStream = 3

	statusOK       = 0
	statusError    = 1
	statusContinue = 2
)

// frameHeader is the start of a frame after its length.
type frameHeader struct {
	program, procedure, kind, status uint32
	serial                           int32
}

// parseFrameHeader reads the whole header, length included.
func parseFrameHeader(b []byte) frameHeader {
	word := func(i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
	return frameHeader{
		program: word(1), procedure: word(3), kind: word(4),
		serial: int32(word(5)), //nolint:gosec // a serial is signed on the wire
		status: word(6),
	}
}

// errNotLibvirt: what came does not follow libvirt's protocol.
var errNotLibvirt = errors.New("the answer does not follow libvirt's protocol")

// rpcCalls follows the calls in flight on one connection, so that the library is given exactly the
// messages that it waits for. It hands each over on an unbuffered channel, under one lock: a
// second reply, or one to a call that has returned, would block the connection for ever.
type rpcCalls struct {
	mu      sync.Mutex
	changed sync.Cond
	waiting map[int32]*rpcState
	closed  bool
	// opened: libvirt accepted the connection.
	opened bool
	// Of the frame that is being written: the header so far, and the bytes that follow it.
	head []byte
	rest int
	// unsent are the calls whose frames are not wholly written.
	unsent []*rpcState
}

// rpcState is one call in flight.
type rpcState struct {
	program, procedure uint32

	sent      bool     // its frame was written
	streaming bool     // its reply came, and its stream is open
	early     [][]byte // frames of its stream that came before its reply
}

func newRPCCalls() *rpcCalls {
	c := &rpcCalls{waiting: map[int32]*rpcState{}}
	c.changed.L = &c.mu
	return c
}

// sending notes the calls whose frames begin in p, which is about to be written.
func (c *rpcCalls) sending(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(p) > 0 {
		if c.rest > 0 {
			n := min(c.rest, len(p))
			c.rest -= n
			p = p[n:]
			continue
		}
		n := min(frameHeaderSize-len(c.head), len(p))
		c.head = append(c.head, p[:n]...)
		p = p[n:]
		if len(c.head) < frameHeaderSize {
			return
		}
		c.rest = int(binary.BigEndian.Uint32(c.head)) - frameHeaderSize
		if h := parseFrameHeader(c.head); h.kind == typeCall {
			state := &rpcState{program: h.program, procedure: h.procedure}
			c.waiting[h.serial] = state
			c.unsent = append(c.unsent, state)
		}
		c.head = c.head[:0]
	}
}

// written notes that everything given to sending was written.
func (c *rpcCalls) written() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rest > 0 || len(c.head) > 0 {
		return // the last frame goes on in the next write
	}
	for _, state := range c.unsent {
		state.sent = true
	}
	c.unsent = c.unsent[:0]
	c.changed.Broadcast()
}

// maxEarly is how many bytes of a download may come before its reply.
const maxEarly = 4 << 20

// passed gives what the library is to get of a frame: nothing, the frame, or a reply with what came of
// its stream before. libvirtd sends a download's data from another thread than the reply, and the first
// of it may overtake; the library takes the first message for the reply, and the reply for the end.
func (c *rpcCalls) passed(frame []byte) ([]byte, error) {
	h := parseFrameHeader(frame)
	if c.hold(h, frame) {
		return nil, nil
	}
	pass, err := c.accept(h, frame[frameHeaderSize:])
	if err != nil || !pass {
		return nil, err
	}
	out := frame
	for _, early := range c.release(h) {
		pass, err := c.accept(parseFrameHeader(early), early[frameHeaderSize:])
		if err != nil {
			return nil, err
		}
		if pass {
			out = append(out, early...)
		}
	}
	return out, nil
}

// hold keeps a frame of a download whose reply has not come. More than a little is left to accept, which
// refuses it.
func (c *rpcCalls) hold(h frameHeader, frame []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	state, ok := c.waiting[h.serial]
	if !ok || h.kind != typeStream || h.program != state.program || h.procedure != state.procedure || !state.downloads() || state.streaming {
		return false
	}
	held := len(frame)
	for _, f := range state.early {
		held += len(f)
	}
	if held > maxEarly {
		return false
	}
	state.early = append(state.early, frame)
	return true
}

// release gives what was held for a call whose reply was just accepted.
func (c *rpcCalls) release(h frameHeader) [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	state, ok := c.waiting[h.serial]
	if !ok || !state.streaming {
		return nil
	}
	early := state.early
	state.early = nil
	return early
}

// accept tells whether a message is one that the library waits for. One to a call that is not in
// flight, such as an event or the answer to an aborted stream, is left out. A message that
// contradicts the protocol is errNotLibvirt. It waits until the call's own frame is written.
func (c *rpcCalls) accept(h frameHeader, body []byte) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	state, ok := c.waiting[h.serial]
	if !ok || h.program != state.program {
		return false, nil
	}
	for !state.sent && !c.closed {
		c.changed.Wait()
	}
	if c.closed {
		return false, errClosed
	}
	if h.procedure != state.procedure {
		return false, fmt.Errorf("%w: a reply to procedure %d names procedure %d", errNotLibvirt, state.procedure, h.procedure)
	}
	if state.streaming {
		return c.acceptStream(h, body, state)
	}
	return c.acceptReply(h, body, state)
}

func (c *rpcCalls) acceptReply(h frameHeader, body []byte, state *rpcState) (bool, error) {
	reply := shapeOf(state.program, state.procedure)
	switch {
	case h.kind != typeReply:
		return false, fmt.Errorf("%w: a message of type %d instead of a reply", errNotLibvirt, h.kind)
	case h.status == statusError && errorShape(&xdrCursor{body}):
		delete(c.waiting, h.serial)
	case h.status == statusOK && reply != nil && reply(&xdrCursor{body}):
		if state.uploads() || state.downloads() {
			state.streaming = true
			break
		}
		c.opened = c.opened || (state.program == remoteProgram && state.procedure == procConnectOpen)
		delete(c.waiting, h.serial)
	default:
		return false, fmt.Errorf("%w: the reply to procedure %d has status %d and %d bytes that are none of its results",
			errNotLibvirt, state.procedure, h.status, len(body))
	}
	return true, nil
}

func (s *rpcState) uploads() bool {
	return s.program == remoteProgram && s.procedure == procStorageVolUpload
}

func (s *rpcState) downloads() bool {
	return s.program == remoteProgram && s.procedure == procStorageVolDownload
}

// acceptStream takes the data of a download, and the message that ends a stream. Data that a server
// sends into an upload is left out; a continuation without data is an end, as libvirt's daemons send it.
func (c *rpcCalls) acceptStream(h frameHeader, body []byte, state *rpcState) (bool, error) {
	switch {
	case h.kind != typeStream:
		return false, fmt.Errorf("%w: a message of type %d inside a stream", errNotLibvirt, h.kind)
	case h.status == statusContinue && len(body) > 0:
		return state.downloads(), nil
	case h.status == statusOK, h.status == statusContinue,
		h.status == statusError && errorShape(&xdrCursor{body}):
		delete(c.waiting, h.serial)
		return true, nil
	}
	return false, fmt.Errorf("%w: a stream message of status %d", errNotLibvirt, h.status)
}

// wasOpened tells whether libvirt accepted the connection.
func (c *rpcCalls) wasOpened() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opened
}

// close frees whoever waits in accept.
func (c *rpcCalls) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.changed.Broadcast()
}
