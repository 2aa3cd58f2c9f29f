package kvm2

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/digitalocean/go-libvirt"
	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// These tests keep the fake honest: each is a fact that was measured against libvirtd 9.

const (
	fakeUUID  = "9d6a1c04-6d6f-4a7c-9d11-0a4de3b8a001"
	fakeOther = "9d6a1c04-6d6f-4a7c-9d11-0a4de3b8a002"
)

// fakeDomainXML is the least that defines a domain.
func fakeDomainXML(name, id, metadata string, disks ...string) string {
	var devices strings.Builder
	for _, path := range disks {
		devices.WriteString("<disk type='file' device='disk'><source file='" + path + "'/><target dev='vda' bus='virtio'/></disk>")
	}
	return "<domain type='kvm'><name>" + name + "</name><uuid>" + id + "</uuid><metadata>" + metadata + "</metadata>" +
		"<os firmware='efi'><type>hvm</type></os><devices>" + devices.String() +
		"<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel></devices></domain>"
}

func fakeSession(t *testing.T) (*fakeHost, conn) {
	t.Helper()
	h := newFakeHost("beelink")
	c := newFakeConn(h)
	t.Cleanup(func() { _ = c.Close() })
	return h, c
}

func wantVirErr(t *testing.T, err error, code libvirt.ErrorNumber) {
	t.Helper()
	var vir libvirt.Error
	if !errors.As(err, &vir) || vir.Code != uint32(code) {
		t.Errorf("error is %v, want libvirt's code %d", err, code)
	}
}

func TestFake_redefinesEqualNameAndUUIDWithoutAWord(t *testing.T) {
	h, c := fakeSession(t)
	h.addDomain(fakeDomainXML("vm", fakeUUID, `<m:a xmlns:m="urn:m">old</m:a>`), true)
	if _, err := c.DomainDefineXML(t.Context(), fakeDomainXML("vm", fakeUUID, `<m:a xmlns:m="urn:m">new</m:a>`)); err != nil {
		t.Fatalf("redefine: %v", err)
	}
	d, _ := c.DomainLookupByName(t.Context(), "vm")
	doc, err := c.DomainGetXMLDesc(t.Context(), d)
	if err != nil || !strings.Contains(doc, "old") {
		t.Errorf("a running domain shows what it runs with; got %v %s", err, doc)
	}
	_, err = c.DomainDefineXML(t.Context(), fakeDomainXML("vm", fakeOther, ""))
	wantVirErr(t, err, libvirt.ErrOperationFailed)
}

func TestFake_metadataKeptAndDropped(t *testing.T) {
	tests := map[string]struct {
		reason, in string
		want       bool
	}{
		"namespace":        {reason: "an element with a namespace is kept", in: `<m:a xmlns:m="urn:m"><m:b>kept</m:b></m:a>`, want: true},
		"none":             {reason: "an element without a namespace vanishes", in: `<a><b>kept</b></a>`},
		"second of one":    {reason: "of two in one namespace the first stays", in: `<m:x xmlns:m="urn:m"/><m:a xmlns:m="urn:m">kept</m:a>`},
		"second namespace": {reason: "another namespace is another element", in: `<m:x xmlns:m="urn:m"/><n:a xmlns:n="urn:n">kept</n:a>`, want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, c := fakeSession(t)
			d, err := c.DomainDefineXML(t.Context(), fakeDomainXML("vm", fakeUUID, tc.in))
			if err != nil {
				t.Fatal(err)
			}
			doc, err := c.DomainGetXMLDesc(t.Context(), d)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(doc, "kept"); got != tc.want {
				t.Errorf("%s: present %v, want %v in %s", tc.reason, got, tc.want, doc)
			}
		})
	}
}

func TestFake_undefineWhileRunningLeavesItTransient(t *testing.T) {
	h, c := fakeSession(t)
	h.addDomain(fakeDomainXML("vm", fakeUUID, ""), true)
	d, _ := c.DomainLookupByName(t.Context(), "vm")
	wantVirErr(t, c.DomainUndefineFlags(t.Context(), d, 0), libvirt.ErrOperationInvalid) // it has NVRAM
	if err := c.DomainUndefineFlags(t.Context(), d, uint32(libvirt.DomainUndefineNvram)); err != nil {
		t.Fatalf("undefine: %v", err)
	}
	if diff := cmp.Diff([]string{"vm"}, h.domainNames()); diff != "" {
		t.Errorf("an undefined running domain goes on as a transient one: -want, +got:\n%s", diff)
	}
	wantVirErr(t, c.DomainUndefineFlags(t.Context(), d, uint32(libvirt.DomainUndefineNvram)), libvirt.ErrOperationInvalid)
	if err := c.DomainDestroy(t.Context(), d); err != nil {
		t.Fatalf("destroy: %v", err)
	}
	_, err := c.DomainLookupByName(t.Context(), "vm")
	wantVirErr(t, err, libvirt.ErrNoDomain)
}

func TestFake_startNeedsItsDisks(t *testing.T) {
	h, c := fakeSession(t)
	h.addDomain(fakeDomainXML("vm", fakeUUID, "", "/srv/vms/images/vm.qcow2"), false)
	d, _ := c.DomainLookupByName(t.Context(), "vm")
	wantVirErr(t, c.DomainCreate(t.Context(), d), libvirt.ErrSystemError)
	h.addVolume("default", "vm.qcow2", []byte("x"))
	if err := c.DomainCreate(t.Context(), d); err != nil {
		t.Fatalf("start: %v", err)
	}
	wantVirErr(t, c.DomainCreate(t.Context(), d), libvirt.ErrOperationInvalid)
	wantVirErr(t, func() error { _, err := c.DomainInterfaceAddresses(t.Context(), d, sourceAgent); return err }(), libvirt.ErrAgentUnresponsive)
}

func TestFake_poolAndVolumeCodes(t *testing.T) {
	h, c := fakeSession(t)
	_, err := c.StoragePoolLookupByName(t.Context(), "nope")
	wantVirErr(t, err, libvirt.ErrNoStoragePool)
	p, _ := c.StoragePoolLookupByName(t.Context(), "default")
	_, err = c.StorageVolLookupByName(t.Context(), p, "nope")
	wantVirErr(t, err, libvirt.ErrNoStorageVol)

	doc := `<volume><name>v</name><capacity unit="bytes">4</capacity></volume>`
	v, err := c.StorageVolCreateXML(t.Context(), p, doc)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.StorageVolCreateXML(t.Context(), p, doc)
	wantVirErr(t, err, libvirt.ErrStorageVolExist)
	if err := c.StorageVolUpload(t.Context(), v, strings.NewReader("abcd"), 4); err != nil {
		t.Fatalf("upload: %v", err)
	}
	h.withVolume("default", "v", func(v *fakeVolume) {
		if !bytes.Equal(v.content, []byte("abcd")) {
			t.Errorf("content %q, want what was uploaded", v.content)
		}
	})
	for name, body := range map[string]string{"short": "ab", "long": "abcde"} {
		if err := c.StorageVolUpload(t.Context(), v, strings.NewReader(body), 4); err == nil {
			t.Errorf("a %s reader must be an error", name)
		}
	}
	h.withPool("default", func(p *fakePool) { p.state = fakePoolInactive })
	_, err = c.StorageVolLookupByName(t.Context(), p, "v")
	wantVirErr(t, err, libvirt.ErrOperationInvalid)
}

func TestFake_faults(t *testing.T) {
	lost := errors.New("lost")
	tests := map[string]struct {
		reason      string
		fault       fault
		wantErr     error
		wantRunning bool
	}{
		"before":      {reason: "an error before the effect leaves nothing", fault: fault{method: "DomainCreate", nth: 1, err: lost}, wantErr: lost},
		"after":       {reason: "a lost response leaves the effect", fault: fault{method: "DomainCreate", nth: 1, err: lost, after: true}, wantErr: lost, wantRunning: true},
		"drop":        {reason: "the connection dies before the effect", fault: fault{method: "DomainCreate", drop: true}, wantErr: errFakeLost},
		"other":       {reason: "a fault of another method does nothing", fault: fault{method: "DomainDestroy", err: lost}, wantRunning: true},
		"second":      {reason: "the first call is not the second", fault: fault{method: "DomainCreate", nth: 2, err: lost}, wantRunning: true},
		"other names": {reason: "a fault for another domain does nothing", fault: fault{arg: "vm2", err: lost}, wantRunning: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h, c := fakeSession(t)
			h.addDomain(fakeDomainXML("vm", fakeUUID, ""), false)
			d, _ := c.DomainLookupByName(t.Context(), "vm")
			h.arm(tc.fault)
			if err := c.DomainCreate(t.Context(), d); !errors.Is(err, tc.wantErr) {
				t.Errorf("%s: error %v, want %v", tc.reason, err, tc.wantErr)
			}
			h.withDomain("vm", func(d *fakeDomain) {
				if d.active() != tc.wantRunning {
					t.Errorf("%s: running %v, want %v", tc.reason, d.active(), tc.wantRunning)
				}
			})
		})
	}
}

func TestFake_blockedCallEndsWithItsContext(t *testing.T) {
	h := newFakeHost("beelink")
	l, err := newFakeDialer(h).Dial(t.Context(), provider.KVMHost{Name: "beelink"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	entered := make(chan struct{})
	h.arm(fault{method: "ConnectGetHostname", block: make(chan struct{}), entered: entered})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-entered; cancel() }()
	if _, err := c.ConnectGetHostname(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the context's", err)
	}
	<-c.Done()
	if h.open() != 0 {
		t.Errorf("an abandoned call drops its connection; %d are open", h.open())
	}
}
