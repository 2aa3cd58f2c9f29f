package kvm2

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

func TestCall_deadlineClosesConnectionAndReturnsTransient(t *testing.T) {
	peer := newRPCPeer()
	l := defaultLimits()
	l.rpc = 100 * time.Millisecond
	c := openTestConn(t, peer, l)
	var err error
	took := within(t, time.Second, "a call that is never answered", func() { err = c.StoragePoolRefresh(t.Context(), pool{Name: "default"}) })
	wantError(t, err, provider.ErrTransient, provider.ReasonTimeout, "StoragePoolRefresh", "beelink", "100ms")
	if took < l.rpc {
		t.Errorf("the call ended after %v, before its limit of %v", took, l.rpc)
	}
	within(t, time.Second, "the close of the given up connection", func() { <-c.Done(); <-peer.closed })
	_, err = c.ConnectGetHostname(t.Context())
	wantError(t, err, provider.ErrTransient, provider.ReasonUnreachable)
}

func TestCall_cancelUnblocksRPC(t *testing.T) {
	tests := map[string]struct {
		want error
		ctx  func(context.Context) (context.Context, context.CancelFunc)
	}{
		"Cancelled": {context.Canceled, func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(50*time.Millisecond, cancel)
			return ctx, cancel
		}},
		"Deadline": {context.DeadlineExceeded, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 50*time.Millisecond)
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			peer := newRPCPeer()
			c := openTestConn(t, peer, defaultLimits())
			ctx, cancel := tc.ctx(t.Context())
			defer cancel()
			var err error
			within(t, time.Second, "a cancelled call", func() { err = c.DomainCreate(ctx, domain{Name: "proxy"}) })
			if !errors.Is(err, tc.want) {
				t.Errorf("error is %v, want ctx's own, %v", err, tc.want)
			}
			within(t, time.Second, "the close of the given up connection", func() { <-c.Done(); <-peer.closed })
		})
	}
}

func TestCall_domainCreateHasALimitOfItsOwn(t *testing.T) {
	l := defaultLimits()
	l.rpc, l.domainCreate = 10*time.Millisecond, time.Minute
	peer := newRPCPeer().on(procDomainCreate, func(r *rpcRequest) {
		time.AfterFunc(100*time.Millisecond, func() { r.reply(nil) })
	})
	c := openTestConn(t, peer, l)
	if err := c.DomainCreate(t.Context(), domain{}); err != nil {
		t.Errorf("a start slower than other calls' limit failed: %v", err)
	}
}

// TestCall_oneSilentCallFreesTheOthers: giving up one call drops the connection, and the others in
// flight end with it and say that their outcome is unknown.
func TestCall_oneSilentCallFreesTheOthers(t *testing.T) {
	peer := newRPCPeer()
	c := openTestConn(t, peer, defaultLimits())
	ctx, cancel := context.WithCancel(t.Context())
	other := make(chan error, 1)
	go func() { other <- c.DomainDestroy(t.Context(), domain{}) }()
	eventually(t, "the first call", func() bool { return peer.calls(procDomainDestroy) == 1 })
	cancelled := make(chan error, 1)
	go func() { cancelled <- c.StoragePoolRefresh(ctx, pool{}) }()
	eventually(t, "the second call", func() bool { return peer.calls(procStoragePoolRefresh) == 1 })
	cancel()
	within(t, time.Second, "both calls", func() {
		<-cancelled
		wantError(t, <-other, provider.ErrTransient, provider.ReasonUnreachable, "not known")
	})
}

func TestCall_daemonGoneMidCallIsTransient(t *testing.T) {
	peer := newRPCPeer().on(procDomainDefineXML, func(r *rpcRequest) { r.hangUp() })
	c := openTestConn(t, peer, defaultLimits())
	var err error
	within(t, time.Second, "a call whose daemon went away", func() { _, err = c.DomainDefineXML(t.Context(), "<domain/>") })
	wantError(t, err, provider.ErrTransient, provider.ReasonUnreachable, "DomainDefineXML", "not known")
	<-c.Done()
}

func TestCall_libvirtErrorsStayAsTheyAre(t *testing.T) {
	peer := newRPCPeer().on(procDomainLookupByName, func(r *rpcRequest) {
		r.fail(uint32(libvirt.ErrNoDomain), "Domain not found")
	})
	c := openTestConn(t, peer, defaultLimits())
	_, err := c.DomainLookupByName(t.Context(), "nobody")
	var answer libvirt.Error
	if !errors.As(err, &answer) || answer.Code != uint32(libvirt.ErrNoDomain) || answer.Message != "Domain not found" {
		t.Errorf("error is %#v, want libvirt's own code and message", err)
	}
	if _, err := c.DomainLookupByName(t.Context(), "nobody"); !errors.As(err, &answer) {
		t.Errorf("an error answer cost the connection: %v", err)
	}
}

func TestCall_lateAnswerHarmsNothing(t *testing.T) {
	peer := newRPCPeer()
	var late atomic.Pointer[rpcRequest]
	peer.on(procConnectGetLibVersion, func(r *rpcRequest) { late.Store(r) })
	peer.on(procConnectGetHostname, func(r *rpcRequest) { r.reply(xdr("kvm")) })
	l := defaultLimits()
	l.rpc = 50 * time.Millisecond
	c := openTestConn(t, peer, l)
	if _, err := c.ConnectGetLibVersion(t.Context()); err == nil {
		t.Fatal("a call without an answer succeeded")
	}
	late.Load().reply(xdr(uint64(1)))
	again := openTestConn(t, peer, l)
	for range 10 {
		if name, err := again.ConnectGetHostname(t.Context()); err != nil || name != "kvm" {
			t.Fatalf("a call on the next connection = %q, %v", name, err)
		}
	}
}

func TestCall_inFlightIsBounded(t *testing.T) {
	tests := map[string]struct {
		reason    string
		procedure uint32
		call      func(*libvirtConn) error
		want      int
	}{
		"Ordinary": {"libvirtd serves five per client", procStoragePoolRefresh,
			func(c *libvirtConn) error { return c.StoragePoolRefresh(t.Context(), pool{}) }, maxCalls},
		"ARP": {"not an agent's call", procDomainInterfaceAddresses, func(c *libvirtConn) error {
			_, err := c.DomainInterfaceAddresses(t.Context(), domain{}, sourceARP)
			return err
		}, maxCalls},
		"Agent": {"agents that do not answer must not take all", procDomainInterfaceAddresses, func(c *libvirtConn) error {
			_, err := c.DomainInterfaceAddresses(t.Context(), domain{}, sourceAgent)
			return err
		}, maxAgentCalls},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			peer := newRPCPeer().on(procConnectGetHostname, func(r *rpcRequest) { r.reply(xdr("kvm")) })
			c := openTestConn(t, peer, defaultLimits())
			var calls sync.WaitGroup
			for range 10 {
				calls.Go(func() { _ = tc.call(c) })
			}
			eventually(t, "the calls", func() bool { return peer.calls(tc.procedure) >= tc.want })
			if tc.want < maxCalls {
				if _, err := c.ConnectGetHostname(t.Context()); err != nil {
					t.Errorf("no room is left beside agent calls: %v", err)
				}
			}
			if got := peer.calls(tc.procedure); got != tc.want {
				t.Errorf("%d calls in flight, want %d: %s", got, tc.want, tc.reason)
			}
			_ = c.Close()
			within(t, time.Second, "the calls that waited for their turn", calls.Wait)
		})
	}
}

func TestCall_waitingForATurnRespectsCancel(t *testing.T) {
	peer := newRPCPeer()
	c := openTestConn(t, peer, defaultLimits())
	var calls sync.WaitGroup
	for range maxCalls {
		calls.Go(func() { _ = c.StoragePoolRefresh(t.Context(), pool{}) })
	}
	eventually(t, "four calls in flight", func() bool { return peer.calls(procStoragePoolRefresh) == maxCalls })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	var err error
	within(t, time.Second, "the wait", func() { _, err = c.ConnectGetHostname(ctx) })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v, want ctx's own", err)
	}
	select {
	case <-c.Done():
		t.Error("the connection was dropped for a call that was never made")
	default:
	}
	_ = c.Close()
	calls.Wait()
}

func TestCall_panicBecomesAnError(t *testing.T) {
	c := openTestConn(t, newRPCPeer(), defaultLimits())
	_, err := call(t.Context(), c, c.short("Broken"), func() (string, error) { panic("index out of range") })
	if err == nil || !strings.Contains(err.Error(), "index out of range") {
		t.Errorf("error is %v, want the panic's text", err)
	}
}

func TestBackend_translatesBothWays(t *testing.T) {
	d := domain{Name: "proxy-1", UUID: [16]byte{1, 2, 3, 15: 9}, ID: 7}
	p := pool{Name: "default", UUID: [16]byte{4, 5}}
	v := volume{Pool: "default", Name: "seed", Key: "/srv/vms/images/seed"}
	encodedPool := xdr(p.Name, p.UUID)
	encodedVolume := xdr(v.Pool, v.Name, v.Key)
	noFlags := uint32(0)
	one := uint32(1)
	tests := map[string]struct {
		procedure uint32
		reply     []byte
		call      func(context.Context, backend) (any, error)
		args      []byte
		want      any
	}{
		"ConnectGetLibVersion": {procConnectGetLibVersion, xdr(uint64(11006000)),
			func(ctx context.Context, b backend) (any, error) { return b.ConnectGetLibVersion(ctx) }, nil, uint64(11006000)},
		"ConnectGetHostname": {procConnectGetHostname, xdr("kvm"),
			func(ctx context.Context, b backend) (any, error) { return b.ConnectGetHostname(ctx) }, nil, "kvm"},
		"ConnectGetCapabilities": {procConnectGetCapabilities, xdr("<capabilities/>"),
			func(ctx context.Context, b backend) (any, error) { return b.ConnectGetCapabilities(ctx) }, nil, "<capabilities/>"},
		"ConnectListAllDomains": {procConnectListAllDomains, xdr(uint32(2), xdrDomain(d), xdrDomain(domain{Name: "b", ID: -1}), uint32(2)),
			func(ctx context.Context, b backend) (any, error) { return b.ConnectListAllDomains(ctx) },
			xdr(one, uint32(1|2|4|8)), []domain{d, {Name: "b", ID: -1}}},
		"DomainLookupByName": {procDomainLookupByName, xdrDomain(d),
			func(ctx context.Context, b backend) (any, error) { return b.DomainLookupByName(ctx, "proxy-1") }, xdr("proxy-1"), d},
		"DomainDefineXML": {procDomainDefineXML, xdrDomain(d),
			func(ctx context.Context, b backend) (any, error) { return b.DomainDefineXML(ctx, "<domain/>") }, xdr("<domain/>"), d},
		"DomainCreate": {procDomainCreate, nil,
			func(ctx context.Context, b backend) (any, error) { return nil, b.DomainCreate(ctx, d) }, xdrDomain(d), nil},
		"DomainDestroy": {procDomainDestroy, nil,
			func(ctx context.Context, b backend) (any, error) { return nil, b.DomainDestroy(ctx, d) }, xdrDomain(d), nil},
		"DomainUndefineFlags": {procDomainUndefineFlags, nil,
			func(ctx context.Context, b backend) (any, error) { return nil, b.DomainUndefineFlags(ctx, d, 5) }, xdr(xdrDomain(d), uint32(5)), nil},
		"DomainSetAutostart": {procDomainSetAutostart, nil,
			func(ctx context.Context, b backend) (any, error) { return nil, b.DomainSetAutostart(ctx, d, true) }, xdr(xdrDomain(d), one), nil},
		"DomainSetAutostartOff": {procDomainSetAutostart, nil,
			func(ctx context.Context, b backend) (any, error) { return nil, b.DomainSetAutostart(ctx, d, false) }, xdr(xdrDomain(d), uint32(0)), nil},
		"DomainGetState": {procDomainGetState, xdr(int32(5), int32(2)), func(ctx context.Context, b backend) (any, error) {
			state, reason, err := b.DomainGetState(ctx, d)
			return []int32{state, reason}, err
		}, xdr(xdrDomain(d), noFlags), []int32{5, 2}},
		"DomainGetXMLDesc": {procDomainGetXMLDesc, xdr("<domain/>"),
			func(ctx context.Context, b backend) (any, error) { return b.DomainGetXMLDesc(ctx, d) }, xdr(xdrDomain(d), noFlags), "<domain/>"},
		"DomainInterfaceAddresses": {procDomainInterfaceAddresses, xdr(uint32(2),
			"lo", uint32(0), uint32(0),
			"eth0", one, "52:54:00:00:00:01", uint32(2), int32(0), "192.0.2.7", uint32(24), int32(1), "fe80::1", uint32(64)),
			func(ctx context.Context, b backend) (any, error) {
				return b.DomainInterfaceAddresses(ctx, d, sourceAgent)
			},
			xdr(xdrDomain(d), one, noFlags),
			[]guestInterface{{Name: "lo"}, {Name: "eth0", MAC: "52:54:00:00:00:01", Addrs: []string{"192.0.2.7", "fe80::1"}}}},
		"StoragePoolLookupByName": {procStoragePoolLookupByName, encodedPool,
			func(ctx context.Context, b backend) (any, error) { return b.StoragePoolLookupByName(ctx, "default") }, xdr("default"), p},
		"StoragePoolGetInfo": {procStoragePoolGetInfo, xdr(uint32(2), uint64(100), uint64(60), uint64(40)),
			func(ctx context.Context, b backend) (any, error) { return b.StoragePoolGetInfo(ctx, p) }, encodedPool, poolInfo{2, 100, 60, 40}},
		"StoragePoolGetXMLDesc": {procStoragePoolGetXMLDesc, xdr("<pool/>"),
			func(ctx context.Context, b backend) (any, error) { return b.StoragePoolGetXMLDesc(ctx, p) }, xdr(encodedPool, noFlags), "<pool/>"},
		"StoragePoolRefresh": {procStoragePoolRefresh, nil,
			func(ctx context.Context, b backend) (any, error) { return nil, b.StoragePoolRefresh(ctx, p) }, xdr(encodedPool, noFlags), nil},
		"StoragePoolListAllVolumes": {procStoragePoolListAllVolume, xdr(one, encodedVolume, one),
			func(ctx context.Context, b backend) (any, error) { return b.StoragePoolListAllVolumes(ctx, p) }, xdr(encodedPool, one, noFlags), []volume{v}},
		"StorageVolLookupByName": {procStorageVolLookupByName, encodedVolume,
			func(ctx context.Context, b backend) (any, error) { return b.StorageVolLookupByName(ctx, p, "seed") }, xdr(encodedPool, "seed"), v},
		"StorageVolCreateXML": {procStorageVolCreateXML, encodedVolume,
			func(ctx context.Context, b backend) (any, error) { return b.StorageVolCreateXML(ctx, p, "<volume/>") }, xdr(encodedPool, "<volume/>", noFlags), v},
		"StorageVolGetPath": {procStorageVolGetPath, xdr("/srv/vms/images/seed"),
			func(ctx context.Context, b backend) (any, error) { return b.StorageVolGetPath(ctx, v) }, encodedVolume, "/srv/vms/images/seed"},
		"StorageVolGetXMLDesc": {procStorageVolGetXMLDesc, xdr("<volume/>"),
			func(ctx context.Context, b backend) (any, error) { return b.StorageVolGetXMLDesc(ctx, v) }, xdr(encodedVolume, noFlags), "<volume/>"},
		"StorageVolDelete": {procStorageVolDelete, nil,
			func(ctx context.Context, b backend) (any, error) { return nil, b.StorageVolDelete(ctx, v) }, xdr(encodedVolume, noFlags), nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var args []byte
			peer := newRPCPeer().on(tc.procedure, func(r *rpcRequest) {
				args = r.body
				r.reply(tc.reply)
			})
			got, err := tc.call(t.Context(), openTestConn(t, peer, defaultLimits()))
			if err != nil {
				t.Fatalf("call: %v", err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("result (-want, +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.args, args, cmp.Transformer("empty", func(b []byte) string { return string(b) })); diff != "" {
				t.Errorf("arguments on the wire (-want, +got):\n%s", diff)
			}
		})
	}
}

// everySeamCall calls every method of the seam on b with zero arguments, and gives their number.
func everySeamCall(t *testing.T, b backend) int {
	t.Helper()
	seam := reflect.TypeFor[backend]()
	value := reflect.ValueOf(b)
	for i := range seam.NumMethod() {
		callWithZeros(t, value.MethodByName(seam.Method(i).Name))
	}
	return seam.NumMethod()
}

// callWithZeros calls a seam method with the test's ctx and zero arguments; a reader holds one byte, to
// go with a length of one.
func callWithZeros(t *testing.T, method reflect.Value) []reflect.Value {
	t.Helper()
	args := []reflect.Value{reflect.ValueOf(t.Context())}
	for i := 1; i < method.Type().NumIn(); i++ {
		switch in := method.Type().In(i); in.Kind() {
		case reflect.Interface:
			args = append(args, reflect.ValueOf(strings.NewReader("x")))
		case reflect.Uint64:
			args = append(args, reflect.ValueOf(uint64(1)))
		default:
			args = append(args, reflect.Zero(in))
		}
	}
	return method.Call(args)
}
