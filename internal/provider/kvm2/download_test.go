package kvm2

import (
	"errors"
	"strings"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// serveDownloads makes the peer send these pieces, and then the end.
func serveDownloads(p *rpcPeer, pieces ...string) *rpcPeer {
	return p.on(procStorageVolDownload, func(r *rpcRequest) {
		if r.kind != typeCall {
			return
		}
		r.reply(nil)
		for _, piece := range pieces {
			r.stream(statusContinue, []byte(piece))
		}
		r.stream(statusContinue, nil)
	})
}

func TestDownload_givesWhatComes(t *testing.T) {
	c := openTestConn(t, serveDownloads(newRPCPeer(), "line one\n", "line two\n"), defaultLimits())
	for range 2 { // the connection is as good as before
		got, err := c.StorageVolDownload(t.Context(), volume{Name: "log"}, 0, 1<<10)
		if err != nil || string(got) != "line one\nline two\n" {
			t.Errorf("got %q, %v", got, err)
		}
	}
}

// libvirtd's data may overtake its reply, up to the stream's end.
func TestDownload_dataThatOvertakesTheReplyIsKept(t *testing.T) {
	for name, late := range map[string]func(r *rpcRequest){
		"some of it": func(r *rpcRequest) {
			r.reply(nil)
			r.stream(statusContinue, []byte("two"))
			r.stream(statusContinue, nil)
		},
		"all of it": func(r *rpcRequest) {
			r.stream(statusContinue, []byte("two"))
			r.stream(statusContinue, nil)
			r.reply(nil)
		},
	} {
		peer := newRPCPeer().on(procStorageVolDownload, func(r *rpcRequest) {
			if r.kind == typeCall {
				r.stream(statusContinue, []byte("one"))
				late(r)
			}
		})
		c := openTestConn(t, peer, defaultLimits())
		for range 2 {
			got, err := c.StorageVolDownload(t.Context(), volume{Name: "log"}, 0, 1<<10)
			if err != nil || string(got) != "onetwo" {
				t.Errorf("%s came first: got %q, %v", name, got, err)
			}
		}
	}
}

// A host that sends without end fills no memory, and blocks nothing that waits.
func TestDownload_moreThanAskedForEndsTheConnection(t *testing.T) {
	c := openTestConn(t, serveDownloads(newRPCPeer(), strings.Repeat("x", 600), strings.Repeat("y", 600), "z"), defaultLimits())
	_, err := c.StorageVolDownload(t.Context(), volume{Name: "log"}, 0, 1000)
	if err == nil || !strings.Contains(err.Error(), "more than the 1000 bytes") {
		t.Errorf("error %v, want that the host sends too much", err)
	}
	<-c.Done()
}

func TestDownload_connectionThatEndsInTheMiddleIsTransient(t *testing.T) {
	peer := newRPCPeer().on(procStorageVolDownload, func(r *rpcRequest) {
		r.reply(nil)
		r.stream(statusContinue, []byte("half"))
		r.hangUp()
	})
	_, err := openTestConn(t, peer, defaultLimits()).StorageVolDownload(t.Context(), volume{Name: "log"}, 0, 1000)
	if !errors.Is(classify("", err), provider.ErrTransient) {
		t.Errorf("error %v, want Transient", err)
	}
}
