package kvm2

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

func TestDiagnose_findings(t *testing.T) {
	answered := func(method string, code libvirt.ErrorNumber) func(*rig) {
		return func(r *rig) { r.host.arm(fault{method: method, err: virErr(code, "no")}) }
	}
	tests := map[string]struct {
		harm func(r *rig)
		want []string // severity and reason, the worst first
	}{
		"nothing wrong": {harm: func(*rig) {}},
		"no OVMF": {func(r *rig) { r.host.domainCapabilities = fakeDomainCapabilities("bios") },
			[]string{"Error FirmwareUnavailable"}},
		"no OVMF, and BIOS images only": {func(r *rig) {
			r.host.domainCapabilities = fakeDomainCapabilities("bios")
			img := r.config.Images["egress"]
			img.Firmware = provider.FirmwareBIOS
			r.config.Images["egress"] = img
		}, nil},
		"no KVM": {func(r *rig) { r.host.capabilities = fakeCapabilities("x86_64", "qemu") }, []string{"Warning NoKVM"}},
		"no QEMU": {func(r *rig) {
			r.host.capabilities = "<capabilities><host><cpu><arch>x86_64</arch></cpu></host></capabilities>"
		}, []string{"Error VirtualizationUnavailable"}},
		"no bridge":        {func(r *rig) { delete(r.host.interfaces, provider.DefaultBridge) }, []string{"Error BridgeNotFound"}},
		"a network card":   {func(r *rig) { r.host.interfaces[provider.DefaultBridge] = "<interface type='ethernet' name='br0'/>" }, []string{"Error NotABridge"}},
		"no such driver":   {answered("InterfaceLookupByName", libvirt.ErrNoSupport), []string{"Note BridgeNotChecked"}},
		"no room":          {func(r *rig) { r.host.withPool(testPool, func(p *fakePool) { p.used = 97 << 30 }) }, []string{"Error LittleSpace"}},
		"pool not running": {func(r *rig) { r.host.withPool(testPool, func(p *fakePool) { p.state = fakePoolInactive }) }, nil},
		"pool missing":     {func(r *rig) { r.host.removePool(testPool) }, nil},
		"clock slow":       {func(r *rig) { r.host.clockOff = -2 * time.Minute }, []string{"Warning ClockOff"}},
		"clock fast":       {func(r *rig) { r.host.clockOff = 2 * time.Minute }, []string{"Warning ClockOff"}},
		"clock near":       {func(r *rig) { r.host.clockOff = -30 * time.Second }, nil},
		"no shell":         {func(r *rig) { r.host.noShell = true }, []string{"Note ClockNotChecked"}},
		"much at once": {func(r *rig) {
			r.host.noShell = true
			r.host.capabilities = fakeCapabilities("x86_64", "qemu")
			delete(r.host.interfaces, provider.DefaultBridge)
		}, []string{"Error BridgeNotFound", "Warning NoKVM", "Note ClockNotChecked"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.host.forget()
			tc.harm(r)
			found, err := r.Diagnose(t.Context(), "beelink")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range found {
				got = append(got, fmt.Sprintf("%s %s", f.Severity, f.Reason))
				if !strings.Contains(f.Message, "beelink") || f.Remedy == "" {
					t.Errorf("%+v does not name the host and what to do", f)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
			wantUntouched(t, r)
		})
	}
}

func TestDiagnose_hostThatCannotBeAskedIsAnError(t *testing.T) {
	r := newRig(t)
	for method, reason := range map[string]string{
		"ConnectGetCapabilities": provider.ReasonUnreachable, "InterfaceLookupByName": provider.ReasonUnreachable,
		"StoragePoolGetInfo": provider.ReasonUnreachable, "HostTime": provider.ReasonUnreachable,
	} {
		r.host.arm(fault{method: method, drop: true})
		_, err := r.Diagnose(t.Context(), "beelink")
		wantErr(t, err, provider.ErrTransient, reason)
		r.host.disarm()
	}
	r.dialer.refuse("beelink", provider.Errorf(provider.ErrPermanent, provider.ReasonAuthFailed, "dial"))
	_, err := r.Diagnose(t.Context(), "beelink")
	wantErr(t, err, provider.ErrPermanent, provider.ReasonAuthFailed)
	_, err = r.Diagnose(t.Context(), "nowhere")
	wantErr(t, err, provider.ErrPermanent, provider.ReasonUnknownZone)
}

func TestDiagnose_closesItsConnectionAndEndsWithItsContext(t *testing.T) {
	r := created(t)
	links, open := r.dialer.openLinks(), r.host.open()
	r.host.arm(fault{method: "InterfaceLookupByName", block: make(chan struct{})})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := r.Diagnose(ctx, "beelink"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the context's", err)
	}
	if r.dialer.openLinks() != links || r.host.open() != open {
		t.Errorf("%d links and %d connections are open, want %d and %d", r.dialer.openLinks(), r.host.open(), links, open)
	}
}

func TestHostTime(t *testing.T) {
	tests := map[string]struct {
		reason string
		exec   func(string) uint32
		out    string
		want   error
	}{
		"refused":   {"an account that may run nothing", nil, "", errNoShell},
		"forced":    {"a command in authorized_keys answers for every other", func(string) uint32 { return 1 }, "", errNoShell},
		"silent":    {"and says nothing", func(string) uint32 { return 0 }, "", errNoShell},
		"chattered": {"or something else", func(string) uint32 { return 0 }, "welcome\n", errNoShell},
		"endless":   {"or without end", func(string) uint32 { return 0 }, strings.Repeat("9", 1<<10), errNoShell},
		"told":      {"a shell tells the seconds", func(string) uint32 { return 0 }, "1795992862\n", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := startHost(t, &sshServer{
				exec: tc.exec, execOutput: tc.out,
				forward: func(string) (net.Conn, error) { return newRPCPeer().connect(), nil },
			})
			c, err := h.mustDial(t).Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			at, err := c.HostTime(t.Context())
			if !errors.Is(err, tc.want) || (err == nil && !at.Equal(time.Unix(1795992862, 0))) {
				t.Errorf("%s: %v, %v", tc.reason, at, err)
			}
		})
	}
}
