package kvm2

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// TestFrameGuard_badFramesEndTheConnection: what a host sends can end a connection and no more. Without
// the guard a short frame panics in a goroutine of the library, and a long one is allocated.
func TestFrameGuard_badFramesEndTheConnection(t *testing.T) {
	hostname := func(r *rpcRequest, status uint32, body []byte) []byte {
		return frame(remoteProgram, r.procedure, typeReply, r.serial, status, body)
	}
	tests := map[string]struct {
		reason string
		answer func(*rpcRequest) []byte
	}{
		"LengthBelowHeader": {"the library would make a slice of negative length", func(*rpcRequest) []byte { return xdr(uint32(27), make([]byte, 23)) }},
		"LengthZero":        {"", func(*rpcRequest) []byte { return xdr(uint32(0), make([]byte, 24)) }},
		"LengthHuge":        {"4 GiB would be allocated", func(*rpcRequest) []byte { return xdr(uint32(0xffffffff), make([]byte, 24)) }},
		"LengthOverMax":     {"", func(*rpcRequest) []byte { return xdr(uint32(maxFrame+1), make([]byte, 24)) }},
		"StringBeyondFrame": {"2 GiB would be allocated", func(r *rpcRequest) []byte { return hostname(r, statusOK, xdr(uint32(0x7ffffff0), "x")) }},
		"StringTooLong": {"", func(r *rpcRequest) []byte {
			return hostname(r, statusOK, xdr(uint32(maxXDRString+1), make([]byte, maxXDRString+4)))
		}},
		"BodyMissing":      {"", func(r *rpcRequest) []byte { return hostname(r, statusOK, nil) }},
		"ErrorWithoutBody": {"", func(r *rpcRequest) []byte { return hostname(r, statusError, nil) }},
		"ErrorCodeZero":    {"the library would take it for success", func(r *rpcRequest) []byte { return hostname(r, statusError, xdrError(0, "fine")) }},
		"StatusUnknown":    {"", func(r *rpcRequest) []byte { return hostname(r, 9, xdr("kvm")) }},
		"StatusContinue":   {"", func(r *rpcRequest) []byte { return hostname(r, statusContinue, xdr("kvm")) }},
		"StreamInsteadOfReply": {"", func(r *rpcRequest) []byte {
			return frame(remoteProgram, r.procedure, typeStream, r.serial, statusOK, xdr("kvm"))
		}},
		"OtherProcedure": {"an event's number would be decoded in the library's reader", func(r *rpcRequest) []byte {
			return frame(remoteProgram, 318, typeReply, r.serial, statusOK, xdr("kvm"))
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			peer := newRPCPeer().on(procConnectGetHostname, func(r *rpcRequest) { r.raw(tc.answer(r)) })
			c := openTestConn(t, peer, defaultLimits())
			var err error
			within(t, 2*time.Second, "a call that is answered with nonsense", func() { _, err = c.ConnectGetHostname(t.Context()) })
			wantError(t, err, provider.ErrTransient, provider.ReasonUnreachable, "protocol")
			select {
			case <-c.Done():
			default:
				t.Errorf("the connection lives on after a bad frame (%s)", tc.reason)
			}
		})
	}
}

// TestFrameGuard_listsCannotAllocate: a count in a reply is what the library allocates by, before it
// looks at what follows.
func TestFrameGuard_listsCannotAllocate(t *testing.T) {
	huge := uint32(0x7fffffff)
	tests := map[string]struct {
		procedure uint32
		body      []byte
	}{
		"AuthTypes":           {procAuthList, xdr(huge, uint32(0))},
		"Domains":             {procConnectListAllDomains, xdr(huge, xdrDomain(domain{}), uint32(1))},
		"DomainsFewerThanSay": {procConnectListAllDomains, xdr(uint32(3), xdrDomain(domain{}), uint32(1))},
		"Volumes":             {procStoragePoolListAllVolume, xdr(huge, "p", "n", "k", uint32(1))},
		"Interfaces":          {procDomainInterfaceAddresses, xdr(huge)},
		"HardwareAddresses":   {procDomainInterfaceAddresses, xdr(uint32(1), "eth0", huge, "mac")},
		"Addresses":           {procDomainInterfaceAddresses, xdr(uint32(1), "eth0", uint32(0), huge)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if replyShapes[tc.procedure](&xdrCursor{tc.body}) {
				t.Errorf("a reply whose counts go beyond its %d bytes is passed on", len(tc.body))
			}
		})
	}
}

// TestFrameGuard_announcedBytesAreNotAllocated: memory follows what came, not what was announced.
func TestFrameGuard_announcedBytesAreNotAllocated(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	guard := newFrameGuard(near)
	defer guard.Close()
	go func() { _, _ = far.Write(xdr(uint32(maxFrame), make([]byte, 100))) }()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	read := make(chan struct{})
	go func() { defer close(read); _, _ = guard.Read(make([]byte, 4)) }()
	time.AfterFunc(50*time.Millisecond, func() { far.Close() })
	<-read
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 4<<20 {
		t.Errorf("%d bytes were allocated for a frame of which 100 came", grown)
	}
}

// TestFrameGuard_unsolicitedFramesAreLeftOut: the library would block for ever on a second reply to a
// call, and would decode an event in its reader.
func TestFrameGuard_unsolicitedFramesAreLeftOut(t *testing.T) {
	peer := newRPCPeer().on(procConnectGetHostname, func(r *rpcRequest) {
		for range 5 {
			r.raw(frame(remoteProgram, 318, 2, 0, statusOK, xdr(uint32(1), uint32(0x7fffffff))))    // an event
			r.raw(frame(0x6b656570, 1, 2, 0, statusOK, nil))                                        // libvirt's keepalive
			r.raw(frame(remoteProgram, r.procedure, typeReply, r.serial+1000, statusOK, xdr("no"))) // nobody asked
		}
		for range 5 {
			r.reply(xdr("kvm"))
		}
	})
	c := openTestConn(t, peer, defaultLimits())
	for i := range 10 {
		var name string
		var err error
		within(t, 2*time.Second, "a call among unsolicited frames", func() { name, err = c.ConnectGetHostname(t.Context()) })
		if err != nil || name != "kvm" {
			t.Fatalf("call %d = %q, %v; want the one answer to each call", i, name, err)
		}
	}
}

// TestFrameGuard_replyBeforeTheCallWaits: a host that guesses the next serial would block the library,
// which takes replies only after it has written the call.
func TestFrameGuard_replyBeforeTheCallWaits(t *testing.T) {
	calls := newRPCCalls()
	request := frame(remoteProgram, procConnectGetHostname, typeCall, 7, statusOK, xdr("argument"))
	reply := frameHeader{program: remoteProgram, procedure: procConnectGetHostname, kind: typeReply, serial: 7}
	if pass, err := calls.accept(reply, xdr("kvm")); pass || err != nil {
		t.Errorf("accept before the call = %v, %v; want the reply left out", pass, err)
	}
	calls.sending(request[:30])
	passed := make(chan bool, 1)
	go func() {
		pass, _ := calls.accept(reply, xdr("kvm"))
		passed <- pass
	}()
	calls.written()
	select {
	case <-passed:
		t.Error("the reply was passed on with half of the call written")
	case <-time.After(20 * time.Millisecond):
	}
	calls.sending(request[30:])
	calls.written()
	if !<-passed {
		t.Error("the reply was left out, want it passed on once the call is written")
	}
}

func TestFrameGuard_framesSurviveAnySplit(t *testing.T) {
	reply := frame(remoteProgram, procConnectGetHostname, typeReply, 1, statusOK, xdr("a host name"))
	for size := 1; size <= len(reply); size++ {
		near, far := net.Pipe()
		guard := newFrameGuard(near)
		go func() {
			_, _ = io.ReadFull(far, make([]byte, frameHeaderSize))
			for rest := reply; len(rest) > 0; rest = rest[min(size, len(rest)):] {
				_, _ = far.Write(rest[:min(size, len(rest))])
			}
		}()
		if _, err := guard.Write(frame(remoteProgram, procConnectGetHostname, typeCall, 1, statusOK, nil)); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(reply))
		if _, err := io.ReadFull(guard, got); err != nil || !bytes.Equal(got, reply) {
			t.Fatalf("in pieces of %d: read %x, %v; want the frame unchanged", size, got, err)
		}
		_, _ = guard.Close(), far.Close()
	}
}

// TestFrameGuard_timeoutsEndTheConnection: the library's reader takes a time-out for temporary and loops
// on it, so that a socket deadline would burn a core and lose the frame's start.
func TestFrameGuard_timeoutsEndTheConnection(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = near.SetReadDeadline(time.Now().Add(-time.Second))
	guard := newFrameGuard(near)
	defer guard.Close()
	for range 2 {
		_, err = guard.Read(make([]byte, 4))
		if _, ok := err.(*net.OpError); ok || err == nil { //nolint:errorlint // the library asserts the outermost type
			t.Fatalf("error is %T (%v), on which the library would try again for ever", err, err)
		}
	}
	select {
	case <-guard.dead:
	default:
		t.Error("the connection lives on after a time-out inside a frame")
	}
}

// TestReplyShapes_everyCallHasOne: a procedure without a shape would have all its replies refused.
func TestReplyShapes_everyCallHasOne(t *testing.T) {
	peer := newRPCPeer()
	var procedures []uint32
	for _, procedure := range append(slices.Collect(maps.Keys(replyShapes)), procAgentCommand) {
		peer.on(procedure, func(r *rpcRequest) {
			if r.kind == typeCall {
				procedures = append(procedures, r.procedure)
				r.fail(1, "scripted")
			}
		})
	}
	near := peer.connect()
	defer near.Close()
	peer.on(procAuthList, func(r *rpcRequest) { r.reply(xdr(uint32(0))) })
	peer.on(procConnectOpen, func(r *rpcRequest) { r.reply(nil) })
	c := openTestConn(t, peer, defaultLimits())
	procedures = nil
	calls := everySeamCall(t, c)
	if len(procedures) != calls {
		t.Errorf("%d seam calls reached the peer as known procedures, want all %d", len(procedures), calls)
	}
}

func FuzzReplyShapes(f *testing.F) {
	f.Add(uint32(procConnectListAllDomains), xdr(uint32(1), xdrDomain(domain{Name: "d"}), uint32(1)))
	f.Add(uint32(procDomainInterfaceAddresses), xdr(uint32(1), "e", uint32(1), "m", uint32(1), uint32(0), "a", uint32(24)))
	f.Fuzz(func(t *testing.T, procedure uint32, body []byte) {
		shape, ok := replyShapes[procedure]
		if !ok {
			return
		}
		c := &xdrCursor{body}
		if shape(c) && len(body) >= 4 && len(c.rest) == 0 && len(body)%4 != 0 {
			t.Errorf("a body of %d bytes was accepted whole, XDR comes in fours", len(body))
		}
		_ = errorShape(&xdrCursor{body})
	})
}

func TestFrameGuard_deadGuardRefusesWrites(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	guard := newFrameGuard(near)
	_ = guard.Close()
	if _, err := guard.Write(make([]byte, binary.Size(frameHeader{}))); !errors.Is(err, errClosed) {
		t.Errorf("write on a closed connection: %v, want %v", err, errClosed)
	}
}

// TestRPCCalls_eachMessageOnce takes calls through every message that the library waits for, and no more.
func TestRPCCalls_eachMessageOnce(t *testing.T) {
	type message struct {
		kind, status uint32
		body         []byte
		want         bool
	}
	failure := xdrError(38, "no space left on device")
	tests := map[string]struct {
		procedure uint32
		messages  []message
	}{
		"Call":         {procConnectGetHostname, []message{{typeReply, statusOK, xdr("kvm"), true}, {typeReply, statusOK, xdr("kvm"), false}}},
		"FailedCall":   {procConnectGetHostname, []message{{typeReply, statusError, failure, true}, {typeReply, statusError, failure, false}}},
		"FailedUpload": {procStorageVolUpload, []message{{typeReply, statusError, failure, true}, {typeStream, statusError, failure, false}}},
		"Upload": {procStorageVolUpload, []message{
			{typeReply, statusOK, nil, true},
			{typeStream, statusContinue, []byte("data"), false},
			{typeStream, statusOK, nil, true},
			{typeStream, statusOK, nil, false},
		}},
		"UploadEndedByContinue": {procStorageVolUpload, []message{
			{typeReply, statusOK, nil, true},
			{typeStream, statusContinue, nil, true},
			{typeStream, statusContinue, nil, false},
		}},
		"Download": {procStorageVolDownload, []message{
			{typeReply, statusOK, nil, true},
			{typeStream, statusContinue, []byte("data"), true},
			{typeStream, statusContinue, []byte("more"), true},
			{typeStream, statusContinue, nil, true},
			{typeStream, statusContinue, []byte("late"), false},
		}},
		"FailedDownload": {procStorageVolDownload, []message{
			{typeReply, statusOK, nil, true},
			{typeStream, statusError, failure, true},
			{typeStream, statusContinue, []byte("late"), false},
		}},
		"AbortedUpload": {procStorageVolUpload, []message{
			{typeReply, statusOK, nil, true},
			{typeStream, statusError, failure, true},
			{typeStream, statusError, failure, false},
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			calls := newRPCCalls()
			calls.sending(frame(remoteProgram, tc.procedure, typeCall, 7, statusOK, nil))
			calls.written()
			for i, m := range tc.messages {
				h := frameHeader{program: remoteProgram, procedure: tc.procedure, kind: m.kind, status: m.status, serial: 7}
				if pass, err := calls.accept(h, m.body); pass != m.want || err != nil {
					t.Errorf("message %d: passed on %v, %v; want %v", i, pass, err, m.want)
				}
			}
		})
	}
}
