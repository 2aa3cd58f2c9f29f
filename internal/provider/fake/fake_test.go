package fake_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	uid1     = "6f1c6d3e-52a6-4a39-8a53-6f8a1d0c8a11"
	uid2     = "6f1c6d3e-52a6-4a39-8a53-6f8a1d0c8a12"
	sentinel = "s3ntinel"
)

var created = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func clock() time.Time { return created.Add(300 * time.Millisecond) }

// newFake is a provider home with two zones.
func newFake(t *testing.T, opts ...fake.Option) *fake.Provider {
	t.Helper()
	return fake.New("home", append([]fake.Option{fake.WithZones("beelink", "attic"), fake.WithClock(clock)}, opts...)...)
}

func request(name, uid string) provider.CreateRequest {
	return provider.CreateRequest{
		Name: name, UID: uid, Owner: fake.DefaultOwner, Ref: "default/" + name, CloudInit: provider.Secret(sentinel),
		Placement: provider.Placement{Zone: "beelink", MachineType: "small", Image: "debian-13"},
	}
}

// mustCreate creates what must work.
func mustCreate(t *testing.T, p provider.Provider, req provider.CreateRequest) string {
	t.Helper()
	id, err := p.Create(t.Context(), req)
	if err != nil {
		t.Fatalf("create must work here: %v", err)
	}
	return id
}

// wantErr fails unless err has the class and the reason, and the configured name once in front.
func wantErr(t *testing.T, err, class error, reason string) {
	t.Helper()
	if !errors.Is(err, class) || provider.ReasonOf(err) != reason {
		t.Errorf("want %v with %s, got %v with %q", class, reason, err, provider.ReasonOf(err))
	}
	if err != nil && (!strings.HasPrefix(err.Error(), "home: ") || strings.Contains(err.Error()[1:], "home: ")) {
		t.Errorf("an error must have the configured name once, in front, got %q", err)
	}
	if err != nil && strings.Contains(err.Error(), sentinel) {
		t.Errorf("an error must not tell the cloud-init, got %q", err)
	}
}

func TestCreate_makesOneMarkedRunningInstance(t *testing.T) {
	p := newFake(t)
	id := mustCreate(t, p, request("a", uid1))
	want := []fake.Sight{{
		ID: "zones/beelink/instances/a", Name: "a", Zone: "beelink", Marked: true, Owner: fake.DefaultOwner, UID: uid1, Ref: "default/a",
		Running: true, Addresses: []string{"198.18.0.2"}, CloudInit: provider.Secret(sentinel),
		Placement: provider.Placement{Zone: "beelink", MachineType: "small", Image: "debian-13"},
	}}
	if diff := cmp.Diff(want, p.Backend().Instances()); diff != "" {
		t.Errorf("what stands in the backend: -want, +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{id}, p.Backend().Disks()); diff != "" {
		t.Errorf("its disk: -want, +got:\n%s", diff)
	}
}

func TestGet_describesTheInstance(t *testing.T) {
	p := newFake(t)
	id := mustCreate(t, p, request("a", uid1))
	got, err := p.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	want := provider.Instance{
		ID: id, Name: "a", UID: uid1, Owner: fake.DefaultOwner, Ref: "default/a", State: provider.StateRunning,
		Addresses: []string{"198.18.0.2"}, MACs: got.MACs, CreatedAt: created, Zone: "beelink",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if len(got.MACs) != 1 || !strings.HasPrefix(got.MACs[0], "52:54:00:") {
		t.Errorf("want one hardware address of QEMU's range, got %v", got.MACs)
	}
}

func TestGet_states(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(b *fake.Backend, id string)
		want   provider.State
	}{
		"running":    {"it runs and has an address", func(*fake.Backend, string) {}, provider.StateRunning},
		"no address": {"an address may come late", func(b *fake.Backend, id string) { b.SetAddresses(id) }, provider.StateProvisioning},
		"stopped":    {"it exists and does not run", func(b *fake.Backend, id string) { b.Stop(id) }, provider.StateStopped},
		"half made":  {"its mark has no UID", func(b *fake.Backend, id string) { b.ForgetUID(id) }, provider.StateProvisioning},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := newFake(t)
			id := mustCreate(t, p, request("a", uid1))
			tc.change(p.Backend(), id)
			got, err := p.Get(t.Context(), id)
			if err != nil || got.State != tc.want {
				t.Errorf("%s: want %s, got %s, %v", tc.reason, tc.want, got.State, err)
			}
		})
	}
}

func TestHoldAddresses_theyComeLate(t *testing.T) {
	p := newFake(t)
	p.Backend().HoldAddresses()
	id := mustCreate(t, p, request("a", uid1))
	if got, err := p.Get(t.Context(), id); err != nil || got.State != provider.StateProvisioning {
		t.Errorf("want Provisioning until an address appears, got %s, %v", got.State, err)
	}
	p.Backend().SetAddresses(id, "198.18.9.9")
	if got, err := p.Get(t.Context(), id); err != nil || got.State != provider.StateRunning || !cmp.Equal([]string{"198.18.9.9"}, got.Addresses) {
		t.Errorf("want Running with the address, got %+v, %v", got, err)
	}
}

func TestCreate_rejectsWithoutABackendCall(t *testing.T) {
	cases := map[string]struct {
		reason string
		edit   func(*provider.CreateRequest)
		want   string
	}{
		"zone":         {"not in the entry", func(r *provider.CreateRequest) { r.Placement.Zone = "x" }, provider.ReasonUnknownZone},
		"machine type": {"not in the entry", func(r *provider.CreateRequest) { r.Placement.MachineType = "x" }, provider.ReasonUnknownMachineType},
		"image":        {"not in the entry", func(r *provider.CreateRequest) { r.Placement.Image = "x" }, provider.ReasonUnknownImage},
		"owner":        {"a request of another owner", func(r *provider.CreateRequest) { r.Owner = "x" }, provider.ReasonInvalidRequest},
		"name":         {"malformed", func(r *provider.CreateRequest) { r.Name = "A" }, provider.ReasonInvalidRequest},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := newFake(t)
			req := request("a", uid1)
			tc.edit(&req)
			id, err := p.Create(t.Context(), req)
			wantErr(t, err, provider.ErrPermanent, tc.want)
			if id != "" || p.Backend().Calls(fake.LookUp) != 0 {
				t.Errorf("%s: want no ID and no backend call, got %q and %d", tc.reason, id, p.Backend().Calls(fake.LookUp))
			}
			_, err = p.IDFor(req)
			wantErr(t, err, provider.ErrPermanent, tc.want)
		})
	}
}

func TestIDFor_isCreatesID(t *testing.T) {
	p := newFake(t)
	id, err := p.IDFor(request("a", uid1))
	if err != nil || p.Backend().Calls(fake.LookUp) != 0 {
		t.Fatalf("want an ID without a backend call, got %v", err)
	}
	if got := mustCreate(t, p, request("a", uid1)); got != id {
		t.Errorf("want %s, got %s", id, got)
	}
}

// TestWhoMayTouchWhat is the table of the contract's section 3.3.
func TestWhoMayTouchWhat(t *testing.T) {
	const id = "zones/beelink/instances/a"
	ours := fake.Planted{Zone: "beelink", Name: "a", Owner: fake.DefaultOwner, UID: uid1, Ref: "default/a", CreatedAt: created}
	edited := func(edit func(*fake.Planted)) *fake.Planted { p := ours; edit(&p); return &p }
	type outcome struct{ Create, Get, Delete, List string }
	cases := map[string]struct {
		planted  *fake.Planted
		want     outcome
		survives bool // a Delete
	}{
		"nothing":          {nil, outcome{"ok", "NotFound", "ok", ""}, false},
		"ours, same UID":   {&ours, outcome{"ok", "Running " + uid1, "ok", uid1}, false},
		"ours, stopped":    {edited(func(p *fake.Planted) { p.Stopped = true }), outcome{"ok", "Stopped " + uid1, "ok", uid1}, false},
		"ours, half made":  {edited(func(p *fake.Planted) { p.UID = "" }), outcome{"ok", "Provisioning ", "ok", "empty"}, false},
		"ours, other UID":  {edited(func(p *fake.Planted) { p.UID = uid2 }), outcome{"NameConflict", "Running " + uid2, "ok", uid2}, false},
		"another owner's":  {edited(func(p *fake.Planted) { p.Owner = "owner-2" }), outcome{"NameConflict", "NotFound", "NotOurs", ""}, true},
		"unmarked":         {edited(func(p *fake.Planted) { p.Owner = "" }), outcome{"NameConflict", "NotFound", "NotOurs", ""}, true},
		"unmarked stopped": {edited(func(p *fake.Planted) { p.Owner, p.Stopped = "", true }), outcome{"NameConflict", "NotFound", "NotOurs", ""}, true},
	}
	told := func(err error) string {
		if err == nil {
			return "ok"
		}
		return provider.ReasonOf(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			// Each method meets the backend as it was planted.
			plant := func() (*fake.Provider, *fake.Backend) {
				p := newFake(t)
				if tc.planted != nil {
					p.Backend().Plant(*tc.planted)
					if !tc.planted.Stopped {
						p.Backend().SetAddresses(id, "198.18.1.1")
					}
				}
				b := p.Backend()
				return p, b
			}
			var got outcome

			p, b := plant()
			before := b.Instances()
			_, err := p.Create(t.Context(), request("a", uid1))
			got.Create = told(err)
			switch seen, ok := b.Look(id); {
			case err == nil && (!ok || !seen.Running || seen.UID != uid1 || len(b.Instances()) != 1):
				t.Errorf("a create that succeeds must leave one running instance of its UID, got %+v", b.Instances())
			case err != nil && !cmp.Equal(before, b.Instances()):
				t.Errorf("a conflict must change nothing: -want, +got:\n%s", cmp.Diff(before, b.Instances()))
			}

			p, b = plant()
			if inst, err := p.Get(t.Context(), id); err != nil {
				got.Get = told(err)
			} else {
				got.Get = string(inst.State) + " " + inst.UID
			}
			list, err := p.ListByTag(t.Context())
			if err != nil {
				t.Errorf("the list must work: %v", err)
			}
			for _, inst := range list {
				got.List = inst.UID
				if inst.UID == "" {
					got.List = "empty"
				}
			}
			if !cmp.Equal(before, b.Instances()) {
				t.Errorf("reading must change nothing: -want, +got:\n%s", cmp.Diff(before, b.Instances()))
			}

			p, b = plant()
			got.Delete = told(p.Delete(t.Context(), id))
			switch left := len(b.Instances()) + len(b.Disks()); {
			case tc.survives && (len(b.Disks()) != 1 || !cmp.Equal(before, b.Instances())):
				t.Errorf("what is not ours must stay untouched: got %+v with disks %v", b.Instances(), b.Disks())
			case !tc.survives && left != 0:
				t.Errorf("everything must go: got %+v with disks %v", b.Instances(), b.Disks())
			}

			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
}

func TestUnreadableMark_isADoubt(t *testing.T) {
	p := newFake(t)
	id := mustCreate(t, p, request("a", uid1))
	p.Backend().SpoilMark(id)
	_, err := p.Get(t.Context(), id)
	wantErr(t, err, provider.ErrTransient, provider.ReasonBackendError)
	_, err = p.Create(t.Context(), request("a", uid1))
	wantErr(t, err, provider.ErrTransient, provider.ReasonBackendError)
	wantErr(t, p.Delete(t.Context(), id), provider.ErrTransient, provider.ReasonBackendError)
	if list, err := p.ListByTag(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("an instance that cannot be read is left out of the list, got %v, %v", list, err)
	}
	if _, ok := p.Backend().Look(id); !ok {
		t.Error("an instance whose mark cannot be read must stay")
	}
}

func TestIDs_malformedAndUnconfigured(t *testing.T) {
	p := newFake(t)
	for _, id := range []string{"", "a", "zones/beelink/instances/", "zones//instances/a", "hosts/beelink/domains/a", "zones/beelink/instances/a/b"} {
		_, err := p.Get(t.Context(), id)
		wantErr(t, err, provider.ErrPermanent, provider.ReasonInvalidID)
		wantErr(t, p.Delete(t.Context(), id), provider.ErrPermanent, provider.ReasonInvalidID)
	}
	gone := fake.ID("cellar", "a")
	_, err := p.Get(t.Context(), gone)
	wantErr(t, err, provider.ErrPermanent, provider.ReasonHostNotConfigured)
	if err := p.Delete(t.Context(), gone); err != nil {
		t.Errorf("a zone that is not configured any more is nothing to delete from, got %v", err)
	}
	if n := p.Backend().Calls(fake.LookUp); n != 0 {
		t.Errorf("none of these may ask the backend, got %d calls", n)
	}
}

func TestDelete_twiceAndAfterwards(t *testing.T) {
	p := newFake(t)
	id := mustCreate(t, p, request("a", uid1))
	for range 2 {
		if err := p.Delete(t.Context(), id); err != nil {
			t.Fatalf("deleting must work, also again: %v", err)
		}
	}
	_, err := p.Get(t.Context(), id)
	wantErr(t, err, provider.ErrNotFound, provider.ReasonNotFound)
	if b := p.Backend(); len(b.Instances())+len(b.Disks()) != 0 {
		t.Errorf("nothing may be left, got %v and disks %v", b.Instances(), b.Disks())
	}
}

func TestDelete_removesTheDiskOfAVanishedInstance(t *testing.T) {
	p := newFake(t)
	id := mustCreate(t, p, request("a", uid1))
	p.Backend().Remove(id)
	if err := p.Delete(t.Context(), id); err != nil || len(p.Backend().Disks()) != 0 {
		t.Errorf("want no disk and no error, got %v, %v", p.Backend().Disks(), err)
	}
}

func TestDelete_readsTheMarkBeforeEachStep(t *testing.T) {
	b := fake.NewBackend()
	p := newFake(t, fake.WithBackend(b))
	id := mustCreate(t, p, request("a", uid1))
	gate := b.Block(fake.StopInstance)
	done := make(chan error)
	go func() { done <- p.Delete(t.Context(), id) }()
	<-gate.Arrived()
	b.Remove(id)
	b.Plant(fake.Planted{Zone: "beelink", Name: "a", Owner: "owner-2", UID: uid2, Ref: "x/a"})
	gate.Open()
	wantErr(t, <-done, provider.ErrPermanent, provider.ReasonNotOurs)
	if seen, ok := b.Look(id); !ok || seen.Owner != "owner-2" || len(b.Disks()) != 1 {
		t.Errorf("what came in between must stay with its disk, got %+v, %v", seen, b.Disks())
	}
}

func TestListByTag_zonesInOrderAndOnlyOurs(t *testing.T) {
	b := fake.NewBackend()
	p := newFake(t, fake.WithBackend(b))
	if list, err := p.ListByTag(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("an empty list is no error, got %v, %v", list, err)
	}
	for _, at := range [][3]string{{"attic", "a", uid1}, {"beelink", "c", uid2}, {"beelink", "b", uid1}} {
		req := request(at[1], at[2])
		req.Placement.Zone = at[0]
		mustCreate(t, p, req)
	}
	other := newFake(t, fake.WithBackend(b), fake.WithOwner("owner-2"))
	req := request("d", uid2)
	req.Owner = "owner-2"
	mustCreate(t, other, req)
	b.Plant(fake.Planted{Zone: "cellar", Name: "e", Owner: fake.DefaultOwner, UID: uid1})
	list, err := p.ListByTag(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, inst := range list {
		got = append(got, inst.Zone+"/"+inst.Name)
	}
	if diff := cmp.Diff([]string{"beelink/b", "beelink/c", "attic/a"}, got); diff != "" {
		t.Errorf("zones in the entry's order, ours only: -want, +got:\n%s", diff)
	}
}

func TestListByTag_unreachableHostFailsWhole(t *testing.T) {
	p := newFake(t)
	mustCreate(t, p, request("a", uid1))
	p.Backend().FailHost("attic", fake.Unreachable())
	list, err := p.ListByTag(t.Context())
	wantErr(t, err, provider.ErrTransient, provider.ReasonUnreachable)
	if list != nil {
		t.Errorf("no instance beside an error, got %v", list)
	}
	if !strings.Contains(err.Error(), "attic") {
		t.Errorf("the error must name the host, got %q", err)
	}
	p.Backend().FailHost("attic", nil)
	if _, err := p.ListByTag(t.Context()); err != nil {
		t.Errorf("a mended host must answer, got %v", err)
	}
}

func TestCreate_outOfRoomIsQuotaExceededAndLeavesNothing(t *testing.T) {
	p := newFake(t)
	p.Backend().Limit("beelink", 1)
	mustCreate(t, p, request("a", uid1))
	_, err := p.Create(t.Context(), request("b", uid2))
	wantErr(t, err, provider.ErrQuotaExceeded, provider.ReasonQuotaExceeded)
	if diff := cmp.Diff([]string{fake.ID("beelink", "a")}, p.Backend().Disks()); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if err := p.Delete(t.Context(), fake.ID("beelink", "a")); err != nil {
		t.Fatal(err)
	}
	mustCreate(t, p, request("b", uid2))
}

func TestRestart_anotherProviderSeesTheSame(t *testing.T) {
	b := fake.NewBackend()
	id := mustCreate(t, newFake(t, fake.WithBackend(b)), request("a", uid1))
	p := newFake(t, fake.WithBackend(b), fake.WithClock(func() time.Time { return created.Add(time.Hour) }))
	got, err := p.Get(t.Context(), id)
	if err != nil || got.UID != uid1 || !got.CreatedAt.Equal(created) {
		t.Errorf("want the instance as it was made, got %+v, %v", got, err)
	}
	if again := mustCreate(t, p, request("a", uid1)); again != id || b.Made(id) != 1 {
		t.Errorf("want the same instance, got %s made %d times", again, b.Made(id))
	}
}

func TestReusedNames_tellsACallersMistake(t *testing.T) {
	p := newFake(t)
	for _, uid := range []string{uid1, uid2} {
		id := mustCreate(t, p, request("a", uid))
		if err := p.Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	mustCreate(t, p, request("b", uid1))
	if diff := cmp.Diff([]string{"a"}, p.Backend().ReusedNames()); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestFactory_takesTheEntrysPlacements(t *testing.T) {
	b := fake.NewBackend()
	registry := provider.Registry{provider.TypeKVM2: fake.FactoryOver(b), fake.Type: fake.Factory}
	p, err := registry.New(provider.Entry{Name: "home", Type: provider.TypeKVM2, KVM2: &provider.KVMConfig{
		Hosts:        []provider.KVMHost{{Name: "cellar"}},
		MachineTypes: map[string]provider.KVMMachineType{"large": {}}, Images: map[string]provider.KVMImage{"trixie": {}},
	}}, provider.Options{Owner: fake.DefaultOwner, Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	req := request("a", uid1)
	_, err = p.Create(t.Context(), req)
	wantErr(t, err, provider.ErrPermanent, provider.ReasonUnknownZone)
	req.Placement = provider.Placement{Zone: "cellar", MachineType: "large", Image: "trixie"}
	if id := mustCreate(t, p, req); b.Made(id) != 1 {
		t.Errorf("the instance must be made in the backend that the test holds, is not: %s", id)
	}
	if _, err := registry.New(provider.Entry{Name: "home", Type: fake.Type}, provider.Options{Owner: "o"}); err != nil {
		t.Errorf("an entry without a block takes the defaults, got %v", err)
	}
}

func TestLogging_oneLinePerMethodAtV1(t *testing.T) {
	var quiet, loud strings.Builder
	logger := func(out *strings.Builder, v int) logr.Logger {
		return funcr.New(func(_, args string) { out.WriteString(args + "\n") }, funcr.Options{Verbosity: v})
	}
	run := func(ctx context.Context, p *fake.Provider) {
		id := mustCreate(t, p, request("a", uid1))
		_, _ = p.Create(ctx, request("a", uid1)) // only its line matters
		_, _ = p.Get(ctx, "x")
		_, _ = p.ListByTag(ctx)
		p.Check(ctx)
		_ = p.Delete(ctx, id)
	}
	run(t.Context(), newFake(t, fake.WithLog(logger(&quiet, 0))))
	if quiet.Len() != 0 {
		t.Errorf("nothing at V(0), got %s", quiet.String())
	}
	run(logr.NewContext(t.Context(), logger(&loud, 1)), newFake(t))
	got := strings.Split(strings.TrimSpace(loud.String()), "\n")
	if len(got) != 5 || strings.Contains(loud.String(), sentinel) {
		t.Errorf("want five lines in the context's logger without the cloud-init, got %q", got)
	}
	if !strings.Contains(got[1], `"outcome"="InvalidID"`) || !strings.Contains(got[0], `"instance"="a"`) {
		t.Errorf("a line has the instance and the outcome, got %q", got)
	}
}

func TestGuardedDestinations_theZonesHypervisor(t *testing.T) {
	p := newFake(t)
	got, err := p.GuardedDestinations(provider.Placement{Zone: "attic"})
	if err != nil || !cmp.Equal([]string{"192.0.2.2"}, got) {
		t.Errorf("want the second host's address, got %v, %v", got, err)
	}
	_, err = p.GuardedDestinations(provider.Placement{Zone: "x"})
	wantErr(t, err, provider.ErrPermanent, provider.ReasonUnknownZone)
}
