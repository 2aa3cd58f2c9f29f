//go:build lab

package kvm2

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// These tests take the transport alone to the real sshd and libvirtd that KVM2_TEST_* name (lab.env).

const labZone = "kvm1"

func labSetting(t *testing.T, name string) string {
	t.Helper()
	v := os.Getenv("KVM2_TEST_" + name)
	if v == "" {
		t.Fatalf("KVM2_TEST_%s is not set: start the lab and source its lab.env", name)
	}
	return v
}

// labHosts reaches the host with the production dialer.
func labHosts(t *testing.T, change ...func(*provider.KVMHost)) *hosts {
	t.Helper()
	host := provider.KVMHost{Name: labZone, Address: labSetting(t, "HOST"), User: labSetting(t, "USER")}
	for _, f := range change {
		f(&host)
	}
	cfg := &provider.KVMConfig{SSHKeyFile: labSetting(t, "SSH_KEY"), KnownHostsFile: labSetting(t, "KNOWN_HOSTS")}
	h := newHosts([]provider.KVMHost{host}, newSSHDialer(cfg, logr.Discard()))
	t.Cleanup(h.Close)
	return h
}

// must gives a call's result, or ends the test.
func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// labConn gives the control connection and the pool.
func labConn(t *testing.T, h *hosts) (conn, pool) {
	t.Helper()
	c := must[conn](t)(h.control(t.Context(), labZone))
	return c, must[pool](t)(c.StoragePoolLookupByName(t.Context(), "default"))
}

// labVolume makes a raw volume of a name of its own.
func labVolume(t *testing.T, c conn, p pool, size int) volume {
	t.Helper()
	name := "transport-test-" + uuid.NewString()
	xml := fmt.Sprintf("<volume><name>%s</name><capacity>%d</capacity><target><format type='raw'/></target></volume>", name, size)
	return must[volume](t)(c.StorageVolCreateXML(t.Context(), p, xml))
}

// TestTransport_domainAndVolumeCycle makes every call of the seam that needs no guest.
func TestTransport_domainAndVolumeCycle(t *testing.T) {
	ctx := t.Context()
	c, p := labConn(t, labHosts(t))
	if v := must[uint64](t)(c.ConnectGetLibVersion(ctx)); v < 6_000_000 {
		t.Errorf("libvirt's version is %d, want at least 6.0.0", v)
	}
	if name := must[string](t)(c.ConnectGetHostname(ctx)); name == "" {
		t.Error("the host has no name")
	}
	if caps := must[string](t)(c.ConnectGetCapabilities(ctx)); !strings.Contains(caps, "<capabilities>") {
		t.Errorf("capabilities are %.60q", caps)
	}
	if info := must[poolInfo](t)(c.StoragePoolGetInfo(ctx, p)); info.State != 2 || info.Available == 0 || info.Available > info.Capacity {
		t.Errorf("pool info is %+v, want a running pool with room", info)
	}
	if xml := must[string](t)(c.StoragePoolGetXMLDesc(ctx, p)); !strings.Contains(xml, "<name>default</name>") {
		t.Errorf("pool XML is %.60q", xml)
	}

	v := labVolume(t, c, p, 1<<20)
	path := must[string](t)(c.StorageVolGetPath(ctx, v))
	if !strings.HasSuffix(path, "/"+v.Name) || v.Key != path {
		t.Errorf("path %q and key %q, want both to be the file's", path, v.Key)
	}
	if xml := must[string](t)(c.StorageVolGetXMLDesc(ctx, v)); !strings.Contains(xml, v.Name) {
		t.Errorf("volume XML is %.60q", xml)
	}
	if err := c.StoragePoolRefresh(ctx, p); err != nil {
		t.Errorf("refresh: %v", err)
	}
	if all := must[[]volume](t)(c.StoragePoolListAllVolumes(ctx, p)); !slices.Contains(all, v) {
		t.Errorf("volumes %v lack %v", all, v)
	}
	if found := must[volume](t)(c.StorageVolLookupByName(ctx, p, v.Name)); found != v {
		t.Errorf("found %v, want %v", found, v)
	}

	labDomain(t, c, path)

	if err := c.StorageVolDelete(ctx, v); err != nil {
		t.Fatalf("delete the volume: %v", err)
	}
	_, err := c.StorageVolLookupByName(ctx, p, v.Name)
	wantCode(t, err, libvirt.ErrNoStorageVol)
}

// labDomain takes a domain that boots nothing through its life.
func labDomain(t *testing.T, c conn, disk string) {
	t.Helper()
	ctx := t.Context()
	id := uuid.New()
	name := "transport-test-" + id.String()
	d := must[domain](t)(c.DomainDefineXML(ctx, fmt.Sprintf(`<domain type='qemu'><name>%s</name><uuid>%s</uuid><memory unit='MiB'>16</memory>
		<os><type arch='x86_64'>hvm</type></os><devices><disk type='file'><source file='%s'/><target dev='vda' bus='virtio'/></disk></devices></domain>`,
		name, id, disk)))
	if want := (domain{Name: name, UUID: id, ID: -1}); d != want {
		t.Errorf("defined %+v, want %+v", d, want)
	}
	if err := c.DomainSetAutostart(ctx, d, true); err != nil {
		t.Errorf("autostart: %v", err)
	}
	if err := c.DomainCreate(ctx, d); err != nil {
		t.Fatalf("start: %v", err)
	}
	if state, _, err := c.DomainGetState(ctx, d); err != nil || state != 1 {
		t.Errorf("state is %d, %v; want running", state, err)
	}
	if xml := must[string](t)(c.DomainGetXMLDesc(ctx, d)); !strings.Contains(xml, disk) {
		t.Errorf("domain XML is %.60q", xml)
	}
	_, err := c.DomainInterfaceAddresses(ctx, d, sourceAgent)
	wantCode(t, err, libvirt.ErrArgumentUnsupported)
	running := must[domain](t)(c.DomainLookupByName(ctx, name))
	if all := must[[]domain](t)(c.ConnectListAllDomains(ctx)); running.ID < 1 || !slices.Contains(all, running) {
		t.Errorf("domains %v lack the running %v", all, running)
	}
	// Undefining leaves it running and transient; the list must still have it.
	if err := c.DomainUndefineFlags(ctx, d, uint32(libvirt.DomainUndefineNvram)); err != nil {
		t.Errorf("undefine: %v", err)
	}
	if all := must[[]domain](t)(c.ConnectListAllDomains(ctx)); !slices.Contains(all, running) {
		t.Errorf("domains %v lack the transient %v", all, running)
	}
	if err := c.DomainDestroy(ctx, d); err != nil {
		t.Errorf("destroy: %v", err)
	}
	_, err = c.DomainLookupByName(ctx, name)
	wantCode(t, err, libvirt.ErrNoDomain)
}

func wantCode(t *testing.T, err error, code libvirt.ErrorNumber) {
	t.Helper()
	var answer libvirt.Error
	if !errors.As(err, &answer) || answer.Code != uint32(code) {
		t.Errorf("error is %v, want libvirt's code %d", err, code)
	}
}

// TestTransport_uploadBesideControlCalls: an image has a connection of its own, so control calls stay fast.
func TestTransport_uploadBesideControlCalls(t *testing.T) {
	const size = 200 << 20
	h := labHosts(t)
	c, p := labConn(t, h)
	v := labVolume(t, c, p, size)
	defer func() { _ = c.StorageVolDelete(t.Context(), v) }()
	own := must[conn](t)(h.dedicated(t.Context(), labZone))
	defer own.Close()
	start := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- own.StorageVolUpload(t.Context(), v, bytes.NewReader(make([]byte, size)), size) }()
	var slowest time.Duration
	for calls := 0; ; calls++ {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("upload: %v", err)
			}
			took := time.Since(start)
			t.Logf("%d MB at %.0f MB/s; %d control calls beside it, the slowest in %v", size/1000000, float64(size)/1e6/took.Seconds(), calls, slowest)
			if slowest > time.Second {
				t.Errorf("a control call took %v beside an upload", slowest)
			}
			return
		default:
		}
		call := time.Now()
		must[string](t)(c.ConnectGetHostname(t.Context()))
		slowest = max(slowest, time.Since(call))
	}
}

func TestTransport_uploadOfWrongLength(t *testing.T) {
	h := labHosts(t)
	c, p := labConn(t, h)
	for name, r := range map[string]io.Reader{
		"Short": strings.NewReader("short"),
		"Long":  bytes.NewReader(make([]byte, 1<<20+1)),
	} {
		t.Run(name, func(t *testing.T) {
			v := labVolume(t, c, p, 1<<20)
			second := must[conn](t)(h.secondary(t.Context(), labZone))
			defer second.Close()
			err := second.StorageVolUpload(t.Context(), v, r, 1<<20)
			wantError(t, err, provider.ErrTransient, provider.ReasonBackendError, "1048576 bytes")
			if err := c.StorageVolDelete(t.Context(), v); err != nil {
				t.Errorf("the partial volume cannot be removed: %v", err)
			}
		})
	}
}

func TestTransport_refusals(t *testing.T) {
	type verdict struct{ Class, Reason string }
	tests := map[string]struct {
		change func(*provider.KVMHost)
		want   verdict
	}{
		"MissingSocket":   {func(h *provider.KVMHost) { h.Socket = "/run/libvirt/nothing" }, verdict{"transient", provider.ReasonSocketUnavailable}},
		"Directory":       {func(h *provider.KVMHost) { h.Socket = "/run/libvirt" }, verdict{"permanent", provider.ReasonSocketUnavailable}},
		"ForbiddenSocket": {func(h *provider.KVMHost) { h.Socket = "/run/libvirt/virtlogd-sock" }, verdict{"permanent", provider.ReasonPermissionDenied}},
		"User":            {func(h *provider.KVMHost) { h.User = "nobody" }, verdict{"permanent", provider.ReasonAuthFailed}},
		"Port":            {func(h *provider.KVMHost) { h.Port = 2222 }, verdict{"transient", provider.ReasonUnreachable}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := labHosts(t, tc.change).control(t.Context(), labZone)
			if err == nil {
				t.Fatal("connected")
			}
			if diff := cmp.Diff(tc.want, verdict{provider.ClassOf(err).Error(), provider.ReasonOf(err)}); diff != "" {
				t.Errorf("verdict (-want, +got):\n%s\n%v", diff, err)
			}
		})
	}
}

// TestTransport_twoHundredConnectionsLeakNothing counts goroutines and descriptors.
func TestTransport_twoHundredConnectionsLeakNothing(t *testing.T) {
	h := labHosts(t)
	c, _ := labConn(t, h)
	files, goroutines := openFiles(t), runtime.NumGoroutine()
	for range 100 {
		for _, get := range []func() (conn, error){
			func() (conn, error) { return h.secondary(t.Context(), labZone) },
			func() (conn, error) { return h.dedicated(t.Context(), labZone) },
		} {
			extra := must[conn](t)(get())
			must[string](t)(extra.ConnectGetHostname(t.Context()))
			_ = extra.Close()
		}
	}
	eventually(t, "the end of all goroutines and descriptors of 200 connections", func() bool {
		return openFiles(t) <= files && runtime.NumGoroutine() <= goroutines
	})
	must[string](t)(c.ConnectGetHostname(t.Context()))
}
