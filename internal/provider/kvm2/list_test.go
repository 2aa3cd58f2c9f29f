package kvm2

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/digitalocean/go-libvirt"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// addInstance puts a marked domain on a host, as an earlier process left it.
func addInstance(t *testing.T, h *fakeHost, name string, running bool) string {
	t.Helper()
	uid := uuid.New().String()
	h.addDomain(markedXML(t, name, uid, &mark{Managed: true, UID: uid, Owner: testOwner, Ref: "a/" + name}), running)
	return uid
}

func names(list []provider.Instance) []string {
	var out []string
	for _, inst := range list {
		out = append(out, inst.Zone+"/"+inst.Name)
	}
	return out
}

func mustList(t *testing.T, r *rig) []provider.Instance {
	t.Helper()
	list, err := r.ListByTag(t.Context())
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	return list
}

func TestListByTag_excludesUnmarkedDomains(t *testing.T) {
	r := newRig(t)
	addInstance(t, r.host, "vm-1", true)
	r.host.addDomain(fakeDomainXML("Windows Server 2019", uuid.New().String(), ""), true)
	r.host.addDomain(fakeDomainXML("other-tool", uuid.New().String(), `<o:instance xmlns:o="urn:other"><o:uid>1</o:uid></o:instance>`), true)
	if diff := cmp.Diff([]string{"beelink/vm-1"}, names(mustList(t, r))); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestListByTag_nothingIsNoError(t *testing.T) {
	if list := mustList(t, newRig(t)); len(list) != 0 {
		t.Errorf("list %v, want none", list)
	}
}

func TestListByTag_emptyUIDStillListed(t *testing.T) {
	r := newRig(t)
	r.host.addDomain(markedXML(t, testName, testUID, &mark{Managed: true, Owner: testOwner, Ref: "a/b"}), false)
	list := mustList(t, r)
	if len(list) != 1 || list[0].UID != "" || list[0].State != provider.StateProvisioning {
		t.Errorf("list %+v, want one half-made instance without a UID", list)
	}
}

func TestListByTag_acrossHostsInConfigOrder(t *testing.T) {
	r := newRig(t, "zeta", "alpha", "mid")
	for _, host := range []string{"mid", "alpha", "zeta"} {
		for i := range 3 {
			addInstance(t, r.dialer.hosts[host], fmt.Sprintf("vm-%d", i), i%2 == 0)
		}
	}
	list := mustList(t, r)
	want := []string{
		"zeta/vm-0", "zeta/vm-1", "zeta/vm-2", "alpha/vm-0", "alpha/vm-1", "alpha/vm-2", "mid/vm-0", "mid/vm-1", "mid/vm-2",
	}
	if diff := cmp.Diff(want, names(list)); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	for _, inst := range list {
		if inst.ID != formatProviderID(inst.Zone, inst.Name) || inst.UID == "" || inst.Ref != "a/"+inst.Name {
			t.Errorf("listed %+v lacks what its mark says", inst)
		}
		if want := map[string]provider.State{"vm-1": provider.StateStopped}[inst.Name]; want != "" && inst.State != want {
			t.Errorf("state of %s is %s, want %s", inst.Name, inst.State, want)
		}
		if inst.State == provider.StateRunning {
			t.Errorf("%s is Running without an address", inst.Name)
		}
	}
}

func TestListByTag_unreachableHostFailsWhole(t *testing.T) {
	for name, harm := range map[string]func(r *rig){
		"cannot be dialled":           func(r *rig) { r.dialer.refuse("two", errFakeLost) },
		"does not list":               func(r *rig) { r.dialer.hosts["two"].arm(fault{method: "ConnectListAllDomains", drop: true}) },
		"dies while domains are read": func(r *rig) { r.dialer.hosts["two"].arm(fault{method: "DomainGetXMLDesc", nth: 2, drop: true}) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "one", "two", "three")
			for _, h := range r.dialer.hosts {
				for i := range 3 {
					addInstance(t, h, fmt.Sprintf("vm-%d", i), true)
				}
			}
			harm(r)
			list, err := r.ListByTag(t.Context())
			wantErr(t, err, provider.ErrTransient, provider.ReasonUnreachable)
			if len(list) != 0 {
				t.Errorf("a failed list holds %v", names(list))
			}
			if err == nil || !strings.Contains(err.Error(), "two") {
				t.Errorf("error %v does not name the host", err)
			}
		})
	}
}

func TestListByTag_unreadableDomainSkipped(t *testing.T) {
	for name, change := range map[string]func(*fakeDomain){
		"vanished": func(d *fakeDomain) { d.unreadable = virErr(libvirt.ErrNoDomain, "Domain not found") },
		"locked by a job": func(d *fakeDomain) {
			d.unreadable = virErr(libvirt.ErrOperationTimeout, "cannot acquire state change lock")
		},
		"system error":      func(d *fakeDomain) { d.unreadable = virErr(libvirt.ErrSystemError, "cannot read") },
		"undeclared entity": func(d *fakeDomain) { d.rawXML = "<domain><name>&nope;</name></domain>" },
		"cut off":           func(d *fakeDomain) { d.rawXML = "<domain><name>x" },
		"invalid UTF-8":     func(d *fakeDomain) { d.rawXML = "<domain><name>\xff</name></domain>" },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			for i := range 10 {
				addInstance(t, r.host, fmt.Sprintf("vm-%d", i), true)
			}
			r.host.withDomain("vm-4", change)
			if list := mustList(t, r); len(list) != 9 {
				t.Errorf("%d instances, want the nine that can be read: %v", len(list), names(list))
			}
		})
	}
}

func TestListByTag_asksNoGuestAndChangesNothing(t *testing.T) {
	r := created(t)
	guest{connected: true, agent: nic("192.0.2.7")}.on(r)
	mustList(t, r)
	wantUntouched(t, r)
	if n := r.host.count("DomainInterfaceAddresses"); n != 0 {
		t.Errorf("addresses were asked for %d times: a hung agent would hold up the list", n)
	}
}

func TestListByTag_readsAreBounded(t *testing.T) {
	r := newRig(t)
	const domains = 100
	for i := range domains {
		addInstance(t, r.host, fmt.Sprintf("vm-%d", i), true)
	}
	if list := mustList(t, r); len(list) != domains {
		t.Errorf("%d instances, want %d", len(list), domains)
	}
	if calls := len(r.host.recorded()); calls > domains+2 {
		t.Errorf("%d calls for %d domains", calls, domains)
	}
	if n := r.host.busiest(); n > readsInFlight {
		t.Errorf("%d calls at once, want at most %d", n, readsInFlight)
	}
}

func TestListByTag_hostsAreAskedAtTheSameTime(t *testing.T) {
	r := newRig(t, "one", "two")
	reached := map[string]chan struct{}{"one": make(chan struct{}), "two": make(chan struct{})}
	goOn := make(chan struct{})
	for name, h := range r.dialer.hosts {
		h.arm(fault{method: "ConnectListAllDomains", entered: reached[name], block: goOn})
	}
	result := make(chan error, 1)
	go func() {
		_, err := r.ListByTag(t.Context())
		result <- err
	}()
	<-reached["one"]
	<-reached["two"] // would not come if the hosts were asked one after the other
	close(goOn)
	if err := <-result; err != nil {
		t.Error(err)
	}
}

func TestListByTag_endsWithItsContext(t *testing.T) {
	r := newRig(t)
	for i := range 50 {
		addInstance(t, r.host, fmt.Sprintf("vm-%d", i), true)
	}
	ctx, cancel := context.WithCancel(t.Context())
	reached := make(chan struct{})
	r.host.arm(fault{method: "DomainGetXMLDesc", entered: reached, block: make(chan struct{})})
	go func() { <-reached; cancel() }()
	if _, err := r.ListByTag(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, provider.ErrTransient) {
		t.Errorf("list gives %v, want the context's end as Transient", err)
	}
}
