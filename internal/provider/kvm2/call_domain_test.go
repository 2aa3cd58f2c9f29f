package kvm2

import (
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"
)

// libvirtJobWait is how long libvirt waits for another job on a domain before it gives up the call
// (QEMU_JOB_WAIT_TIME).
const libvirtJobWait = 30 * time.Second

// A domain with a long job is one that cannot be read, not a host that does not answer: the connection
// and the other calls on it stay.
func TestCall_aboutADomainOutlastsLibvirtsWaitForAJob(t *testing.T) {
	l := defaultLimits()
	if l.domain <= libvirtJobWait {
		t.Errorf("the limit of a call about a domain is %v, libvirt's own is %v", l.domain, libvirtJobWait)
	}
	l.rpc = 10 * time.Millisecond
	peer := newRPCPeer().on(procDomainGetXMLDesc, func(r *rpcRequest) {
		time.AfterFunc(5*l.rpc, func() { r.fail(uint32(libvirt.ErrOperationTimeout), "cannot acquire state change lock") })
	})
	c := openTestConn(t, peer, l)
	_, err := c.DomainGetXMLDesc(t.Context(), domain{Name: "busy"})
	wantVirErr(t, err, libvirt.ErrOperationTimeout)
	if !alive(c) {
		t.Error("the connection was dropped")
	}
}
