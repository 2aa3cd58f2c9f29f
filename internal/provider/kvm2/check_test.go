package kvm2

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

func TestCheck_oneEntryPerHostInConfigOrder(t *testing.T) {
	r := newRig(t, "zeta", "alpha", "mid")
	r.dialer.refuse("alpha", errFakeLost)
	var got []string
	for _, c := range r.Check(t.Context()) {
		got = append(got, fmt.Sprintf("%s %v", c.Host, c.Ready))
	}
	if diff := cmp.Diff([]string{"zeta true", "alpha false", "mid true"}, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestCheck_hostsCheckedConcurrently(t *testing.T) {
	r := newRig(t, "one", "two", "three")
	reached := map[string]chan struct{}{}
	goOn := make(chan struct{})
	for name, h := range r.dialer.hosts {
		reached[name] = make(chan struct{})
		h.arm(fault{method: "ConnectGetLibVersion", entered: reached[name], block: goOn})
	}
	result := make(chan []provider.HostCheck, 1)
	go func() { result <- r.Check(t.Context()) }()
	for _, c := range reached {
		<-c // would not all come if the hosts were checked one after the other
	}
	close(goOn)
	for _, c := range <-result {
		if !c.Ready {
			t.Errorf("%s: %s", c.Host, c.Message)
		}
	}
}

func TestCheck_expiredContextReturnsPromptly(t *testing.T) {
	t.Run("before", func(t *testing.T) {
		r := newRig(t, "one", "two")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantAllEnded(t, r.Check(ctx), provider.ReasonCanceled, 2)
	})
	t.Run("while a host hangs", func(t *testing.T) {
		r := newRig(t, "one", "two")
		r.dialer.hosts["one"].arm(fault{method: "StoragePoolGetInfo", block: make(chan struct{})})
		r.dialer.hold("two", make(chan struct{}))
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		started := time.Now()
		wantAllEnded(t, r.Check(ctx), provider.ReasonTimeout, 2)
		if took := time.Since(started); took > time.Second {
			t.Errorf("check returned %v after its context ended", took)
		}
	})
}

func wantAllEnded(t *testing.T, checks []provider.HostCheck, reason string, hosts int) {
	t.Helper()
	if len(checks) != hosts {
		t.Fatalf("%d entries, want one for each of %d hosts", len(checks), hosts)
	}
	for _, c := range checks {
		if c.Ready || c.Reason != reason || c.Message == "" {
			t.Errorf("%+v, want not ready with the reason %s and a message", c, reason)
		}
	}
}

func TestCheck_reasonsTable(t *testing.T) {
	onPool := func(change func(*fakePool)) func(*rig) {
		return func(r *rig) { r.host.withPool(testPool, change) }
	}
	refused := func(class error, reason string) func(*rig) {
		return func(r *rig) { r.dialer.refuse("beelink", provider.Errorf(class, reason, "dial")) }
	}
	answered := func(method string, code libvirt.ErrorNumber) func(*rig) {
		return func(r *rig) { r.host.arm(fault{method: method, err: virErr(code, "no")}) }
	}
	tests := map[string]struct {
		harm func(r *rig)
		want string
	}{
		"nothing wrong":         {harm: func(*rig) {}, want: provider.ReasonReady},
		"pool missing":          {harm: func(r *rig) { r.host.removePool(testPool) }, want: provider.ReasonPoolNotFound},
		"pool inactive":         {harm: onPool(func(p *fakePool) { p.state = fakePoolInactive }), want: provider.ReasonPoolNotActive},
		"pool building":         {harm: onPool(func(p *fakePool) { p.state = uint8(libvirt.StoragePoolBuilding) }), want: provider.ReasonPoolNotActive},
		"pool on LVM":           {harm: onPool(func(p *fakePool) { p.kind = "logical" }), want: provider.ReasonPoolUnsupported},
		"pool on RBD":           {harm: onPool(func(p *fakePool) { p.kind = "rbd" }), want: provider.ReasonPoolUnsupported},
		"pool on ZFS":           {harm: onPool(func(p *fakePool) { p.kind = "zfs" }), want: provider.ReasonPoolUnsupported},
		"pool on a file system": {harm: onPool(func(p *fakePool) { p.kind = "fs" }), want: provider.ReasonReady},
		"pool on NFS":           {harm: onPool(func(p *fakePool) { p.kind = "netfs" }), want: provider.ReasonReady},
		"no key file":           {harm: refused(provider.ErrTransient, provider.ReasonCredentialsUnavailable), want: provider.ReasonCredentialsUnavailable},
		"key refused":           {harm: refused(provider.ErrPermanent, provider.ReasonAuthFailed), want: provider.ReasonAuthFailed},
		"host key changed":      {harm: refused(provider.ErrPermanent, provider.ReasonHostKeyMismatch), want: provider.ReasonHostKeyMismatch},
		"forwarding denied":     {harm: refused(provider.ErrPermanent, provider.ReasonForwardingDenied), want: provider.ReasonForwardingDenied},
		"host down":             {harm: func(r *rig) { r.dialer.refuse("beelink", errFakeLost) }, want: provider.ReasonUnreachable},
		"libvirt denies":        {harm: answered("ConnectGetLibVersion", libvirt.ErrAccessDenied), want: provider.ReasonPermissionDenied},
		"hostname fails":        {harm: answered("ConnectGetHostname", libvirt.ErrInternalError), want: provider.ReasonBackendError},
		"connection dies":       {harm: func(r *rig) { r.host.arm(fault{method: "StoragePoolGetInfo", drop: true}) }, want: provider.ReasonUnreachable},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			tc.harm(r)
			got := r.Check(t.Context())[0]
			if got.Reason != tc.want || got.Ready != (tc.want == provider.ReasonReady) {
				t.Errorf("ready %v, reason %s (%s), want %s", got.Ready, got.Reason, got.Message, tc.want)
			}
			if !strings.Contains(got.Message, "beelink") {
				t.Errorf("message %q does not name the host", got.Message)
			}
			if got.Latency < 0 {
				t.Errorf("latency %v", got.Latency)
			}
			wantUntouched(t, r)
		})
	}
}

func TestCheck_neverUsesPooledConnection(t *testing.T) {
	r := created(t)
	before := r.dialer.dialed("beelink")
	links, open := r.dialer.openLinks(), r.host.open()
	for range 3 {
		if c := r.Check(t.Context())[0]; !c.Ready {
			t.Fatal(c.Message)
		}
	}
	if n := r.dialer.dialed("beelink") - before; n != 3 {
		t.Errorf("three checks dialled %d times, want a connection of its own for each", n)
	}
	if r.dialer.openLinks() != links || r.host.open() != open {
		t.Errorf("%d links and %d connections are open, want %d and %d: a check must close its own and no other", r.dialer.openLinks(), r.host.open(), links, open)
	}
	r.host.arm(fault{method: "StoragePoolGetInfo", drop: true})
	r.Check(t.Context())
	r.host.disarm()
	if _, err := r.Get(t.Context(), testID); err != nil {
		t.Errorf("a check that broke took the shared connection with it: %v", err)
	}
	if n := r.dialer.dialed("beelink") - before; n != 4 {
		t.Errorf("%d dials, want 4: the shared connection must still be the first one", n)
	}
}

func TestCheck_detailsKeys(t *testing.T) {
	r := newRig(t)
	r.host.withPool(testPool, func(p *fakePool) { p.used = 25<<30 + 1<<29 })
	want := []provider.Detail{
		{Key: "user", Value: "operator"}, {Key: "hostname", Value: "beelink.example.net"}, {Key: "libvirtVersion", Value: "11.6.0"},
		{Key: "pool", Value: "default"}, {Key: "poolState", Value: "running"},
		{Key: "poolCapacityGiB", Value: "100.0"}, {Key: "poolAvailableGiB", Value: "74.5"},
	}
	if diff := cmp.Diff(want, r.Check(t.Context())[0].Details); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// The cost of a check does not grow with the host.
func TestCheck_constantNumberOfCalls(t *testing.T) {
	count := func(domains int) int {
		r := newRig(t)
		for i := range domains {
			addInstance(t, r.host, fmt.Sprintf("vm-%d", i), true)
		}
		r.Check(t.Context())
		return len(r.host.recorded())
	}
	if few, many := count(0), count(200); few != many {
		t.Errorf("%d calls without instances, %d with 200", few, many)
	}
}
