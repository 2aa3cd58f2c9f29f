package kvm2

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// guest says what agent and neighbour table tell of the instance.
type guest struct {
	connected        bool
	agent, arp       []guestInterface
	agentErr, arpErr error
}

func (g guest) on(r *rig) {
	r.host.withDomain(testName, func(d *fakeDomain) {
		d.agentConnected, d.agent, d.arp, d.agentErr, d.arpErr = g.connected, g.agent, g.arp, g.agentErr, g.arpErr
	})
}

// nic is the instance's own interface with addresses.
func nic(addrs ...string) []guestInterface {
	return []guestInterface{{Name: "enp1s0", MAC: macFor(testUID), Addrs: addrs}}
}

// created gives a rig with one running instance.
func created(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.mustCreate(t, testRequest())
	r.host.forget()
	return r
}

func wantState(t *testing.T, r *rig, state provider.State, addresses ...string) {
	t.Helper()
	inst, err := r.Get(t.Context(), testID)
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	if inst.State != state {
		t.Errorf("state %s, want %s", inst.State, state)
	}
	if diff := cmp.Diff(addresses, inst.Addresses); diff != "" {
		t.Errorf("addresses: -want, +got:\n%s", diff)
	}
}

func TestGet_afterDeleteReturnsNotFound(t *testing.T) {
	r := created(t)
	if err := r.Delete(t.Context(), testID); err != nil {
		t.Fatal(err)
	}
	_, err := r.Get(t.Context(), testID)
	wantErr(t, err, provider.ErrNotFound, provider.ReasonNotFound)
}

func TestGet_duringDeleteStillReturnsInstance(t *testing.T) {
	for _, method := range []string{"DomainDestroy", "DomainUndefineFlags"} {
		t.Run(method, func(t *testing.T) {
			r := created(t)
			reached, goOn := make(chan struct{}), make(chan struct{})
			r.host.arm(fault{method: method, entered: reached, block: goOn})
			result := make(chan error, 1)
			go func() { result <- r.Delete(t.Context(), testID) }()
			<-reached
			inst, err := r.Get(t.Context(), testID)
			if err != nil || inst.UID != testUID {
				t.Errorf("get while %s runs gives %+v, %v, want the instance", method, inst, err)
			}
			close(goOn)
			if err := <-result; err != nil {
				t.Errorf("delete: %v", err)
			}
		})
	}
}

func TestGet_backendBusyIsTransientNeverNotFound(t *testing.T) {
	problems := map[string]fault{
		"job lock":          {err: virErr(libvirt.ErrOperationTimeout, "Timed out during operation: cannot acquire state change lock")},
		"internal error":    {err: virErr(libvirt.ErrInternalError, "internal error: client socket is closed")},
		"invalid operation": {err: virErr(libvirt.ErrOperationInvalid, "Requested operation is not valid")},
		"connection dies":   {drop: true},
		"unknown code":      {err: virErr(libvirt.ErrorNumber(4711), "something new")},
	}
	for name, problem := range problems {
		for _, method := range []string{"DomainLookupByName", "DomainGetXMLDesc", "DomainGetState"} {
			t.Run(name+" at "+method, func(t *testing.T) {
				r := created(t)
				problem.method = method
				r.host.arm(problem)
				_, err := r.Get(t.Context(), testID)
				if !errors.Is(err, provider.ErrTransient) || errors.Is(err, provider.ErrNotFound) {
					t.Errorf("get gives %v of class %v, want Transient and nothing else", err, provider.ClassOf(err))
				}
			})
		}
	}
	t.Run("unreachable", func(t *testing.T) {
		r := newRig(t)
		r.dialer.refuse("beelink", errFakeLost)
		_, err := r.Get(t.Context(), testID)
		wantErr(t, err, provider.ErrTransient, provider.ReasonUnreachable)
	})
}

// It vanished between two calls: libvirt's own answer about it is proof.
func TestGet_vanishedInTheMiddleIsNotFound(t *testing.T) {
	for _, method := range []string{"DomainGetXMLDesc", "DomainGetState"} {
		t.Run(method, func(t *testing.T) {
			r := created(t)
			r.host.arm(fault{method: method, hook: func() { r.host.removeDomain(testName) }})
			_, err := r.Get(t.Context(), testID)
			wantErr(t, err, provider.ErrNotFound, provider.ReasonNotFound)
		})
	}
}

func TestGet_runningWithoutIPIsProvisioning(t *testing.T) {
	for name, g := range map[string]guest{
		"agent not up":         {},
		"agent knows only lo":  {connected: true, agent: []guestInterface{{Name: "lo", MAC: "00:00:00:00:00:00", Addrs: []string{"127.0.0.1"}}}},
		"no address yet":       {connected: true, agent: nic()},
		"link-local and IPv6":  {connected: true, agent: nic("fe80::1", "2001:db8::1", "169.254.3.4")},
		"another interface's":  {connected: true, agent: []guestInterface{{Name: "tun0", MAC: "52:54:00:99:99:99", Addrs: []string{"192.0.2.9"}}}},
		"two addresses in ARP": {arp: nic("192.0.2.7", "192.0.2.9")},
		"two entries in ARP":   {arp: append(nic("192.0.2.7"), nic("192.0.2.9")...)},
	} {
		t.Run(name, func(t *testing.T) {
			r := created(t)
			g.on(r)
			wantState(t, r, provider.StateProvisioning)
		})
	}
}

func TestGet_runningWithIPIsRunning(t *testing.T) {
	for name, g := range map[string]guest{
		"agent":                   {connected: true, agent: nic("fe80::1", "192.0.2.7")},
		"ARP":                     {arp: nic("192.0.2.7")},
		"ARP, the same twice":     {arp: append(nic("192.0.2.7"), nic("192.0.2.7")...)},
		"agent without, ARP with": {connected: true, agent: nic(), arp: nic("192.0.2.7")},
		"MAC in capitals":         {arp: []guestInterface{{MAC: strings.ToUpper(macFor(testUID)), Addrs: []string{"192.0.2.7"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := created(t)
			g.on(r)
			wantState(t, r, provider.StateRunning, "192.0.2.7")
		})
	}
}

func TestGet_agentPreferredOverARP(t *testing.T) {
	r := created(t)
	guest{connected: true, agent: nic("192.0.2.7"), arp: nic("192.0.2.99")}.on(r)
	wantState(t, r, provider.StateRunning, "192.0.2.7")
	for _, call := range r.host.recorded() {
		if call.Arg == testName+" arp" {
			t.Error("ARP was asked although the agent had answered")
		}
	}
}

// An agent that has not opened its channel is not asked: each question would take seconds.
func TestGet_agentThatIsNotConnectedIsNotAsked(t *testing.T) {
	r := created(t)
	guest{arp: nic("192.0.2.7")}.on(r)
	wantState(t, r, provider.StateRunning, "192.0.2.7")
	for _, call := range r.host.recorded() {
		if call.Arg == testName+" agent" {
			t.Error("the agent was asked although its channel is closed")
		}
	}
}

// The interface that Create defined counts, not one that somebody added in front of it.
func TestGet_addressOfTheOwnInterface(t *testing.T) {
	r := created(t)
	added := "52:54:00:aa:bb:cc"
	r.host.withDomain(testName, func(d *fakeDomain) {
		first := d.live.Devices.Interfaces[0]
		mac := *first.MAC
		mac.Address = added
		first.MAC = &mac
		d.live.Devices.Interfaces = append(d.live.Devices.Interfaces[:0:0], first, d.live.Devices.Interfaces[0])
	})
	guest{connected: true, agent: append([]guestInterface{{MAC: added, Addrs: []string{"198.51.100.1"}}}, nic("192.0.2.7")...)}.on(r)
	wantState(t, r, provider.StateRunning, "192.0.2.7")
}

func TestGet_addressErrorIsProvisioning(t *testing.T) {
	netlink := virErr(libvirt.ErrInternalError, "internal error: wrong nlmsg len")
	for name, g := range map[string]guest{
		"agent does not answer": {connected: true, agentErr: virErr(libvirt.ErrAgentUnresponsive, "Guest agent is not responding"), arpErr: netlink},
		"agent forbids":         {connected: true, agentErr: virErr(libvirt.ErrOperationUnsupported, "Command guest-network-get-interfaces has been disabled"), arpErr: netlink},
		"ARP cannot be read":    {arpErr: netlink},
		"domain has just ended": {arpErr: virErr(libvirt.ErrOperationInvalid, "domain is not running")},
	} {
		t.Run(name, func(t *testing.T) {
			r := created(t)
			g.on(r)
			wantState(t, r, provider.StateProvisioning)
		})
	}
	t.Run("a connection that breaks is a doubt", func(t *testing.T) {
		r := created(t)
		r.host.arm(fault{method: "DomainInterfaceAddresses", drop: true})
		_, err := r.Get(t.Context(), testID)
		wantErr(t, err, provider.ErrTransient, provider.ReasonUnreachable)
	})
}

func TestGet_readsUIDAndCreatedAtFromBackend(t *testing.T) {
	r := newRig(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r.host.addDomain(markedXML(t, testName, otherUID, &mark{Managed: true, UID: otherUID, Owner: testOwner, Ref: "a/b", CreatedAt: at}), false)
	inst, err := rigOn(t, r.host).Get(t.Context(), testID) // another process than any that made it
	if err != nil {
		t.Fatal(err)
	}
	want := provider.Instance{
		ID: testID, Name: testName, UID: otherUID, Owner: testOwner, Ref: "a/b",
		State: provider.StateStopped, CreatedAt: at, Zone: "beelink",
	}
	if diff := cmp.Diff(want, inst); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestGet_malformedIDIsPermanent(t *testing.T) {
	r := newRig(t)
	for _, id := range []string{"", "beelink", "hosts/beelink", "hosts/beelink/domains/", "hosts//domains/x", "hosts/beelink/domains/a/b", "hosts/beelink/domains/../x"} {
		_, err := r.Get(t.Context(), id)
		wantErr(t, err, provider.ErrPermanent, provider.ReasonInvalidID)
	}
	if n := r.dialer.dialed("beelink"); n != 0 {
		t.Errorf("the host was dialled %d times", n)
	}
}

func TestGet_unconfiguredHostIsPermanent(t *testing.T) {
	r := newRig(t)
	_, err := r.Get(t.Context(), "hosts/elsewhere/domains/"+testName)
	wantErr(t, err, provider.ErrPermanent, provider.ReasonHostNotConfigured)
}

func TestGet_statesOfTheDomain(t *testing.T) {
	tests := map[string]struct {
		reason string
		state  int32
		why    int32 // libvirt's reason for the state
		want   provider.State
	}{
		"starting up":  {reason: "libvirt shows a domain as paused until its QEMU is up", state: fakePaused, why: int32(libvirt.DomainPausedStartingUp), want: provider.StateProvisioning},
		"paused":       {reason: "paused is not running, whatever address it had", state: fakePaused, want: provider.StateStopped},
		"crashed":      {reason: "a crashed one neither", state: fakeCrashed, want: provider.StateStopped},
		"pmsuspended":  {reason: "nor one that its guest suspended", state: int32(libvirt.DomainPmsuspended), want: provider.StateStopped},
		"unknown code": {reason: "a state of a newer libvirt is not running", state: 99, want: provider.StateStopped},
		"blocked":      {reason: "blocked is running and waiting", state: int32(libvirt.DomainBlocked), want: provider.StateRunning},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := created(t)
			guest{connected: true, agent: nic("192.0.2.7")}.on(r)
			r.host.withDomain(testName, func(d *fakeDomain) { d.state, d.reason = tc.state, tc.why })
			inst, err := r.Get(t.Context(), testID)
			if err != nil || inst.State != tc.want {
				t.Errorf("%s: %s, %v, want %s", tc.reason, inst.State, err, tc.want)
			}
			if tc.want != provider.StateRunning && len(inst.Addresses) != 0 {
				t.Errorf("%s: addresses %v of an instance that does not run", tc.reason, inst.Addresses)
			}
		})
	}
}

func TestGet_changesNothing(t *testing.T) {
	r := created(t)
	guest{connected: true, agent: nic("192.0.2.7")}.on(r)
	wantState(t, r, provider.StateRunning, "192.0.2.7")
	wantUntouched(t, r)
	if calls := r.host.recorded(); len(calls) > 4 {
		t.Errorf("%d calls for a steady get, want at most 4: %v", len(calls), calls)
	}
}
