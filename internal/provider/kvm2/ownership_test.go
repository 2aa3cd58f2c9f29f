package kvm2

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// what stands under the name, for the table of who may touch what.
func standings() map[string]*mark {
	return map[string]*mark{
		"nothing":              nil,
		"ours, same UID":       {Managed: true, UID: testUID, Owner: testOwner, Ref: "egress/berlin-1"},
		"ours, empty UID":      {Managed: true, Owner: testOwner, Ref: "egress/berlin-1"},
		"ours, other UID":      {Managed: true, UID: otherUID, Owner: testOwner, Ref: "egress/berlin-1"},
		"another owner's":      {Managed: true, UID: testUID, Owner: "installation-b", Ref: "egress/berlin-1"},
		"not managed any more": {Managed: false, UID: testUID, Owner: testOwner, Ref: "egress/berlin-1"},
		"unmarked":             {},
	}
}

func plant(t *testing.T, r *rig, m *mark, running bool) {
	t.Helper()
	if m == nil {
		return
	}
	id := testUID
	if m.UID == otherUID {
		id = otherUID
	}
	if *m == (mark{}) {
		m = nil
	}
	r.host.addDomain(markedXML(t, testName, id, m), running)
	r.host.addVolume(testPool, overlayName(testName), []byte("disk"))
	r.host.addVolume(testPool, seedName(testName), []byte("seed"))
}

// cell is what a cell of the table says.
type cell struct {
	class  error // nil is success
	reason string
	state  provider.State // of Get and ListByTag
	uid    string
	listed bool
}

func TestOwnership_create(t *testing.T) {
	want := map[string]cell{
		"nothing":              {},
		"ours, same UID":       {},
		"ours, empty UID":      {},
		"ours, other UID":      {class: provider.ErrPermanent, reason: provider.ReasonNameConflict},
		"another owner's":      {class: provider.ErrPermanent, reason: provider.ReasonNameConflict},
		"not managed any more": {class: provider.ErrPermanent, reason: provider.ReasonNameConflict},
		"unmarked":             {class: provider.ErrPermanent, reason: provider.ReasonNameConflict},
	}
	forEachStanding(t, func(t *testing.T, name string, r *rig) {
		t.Helper()
		id, err := r.Create(t.Context(), testRequest())
		if want[name].class == nil {
			if err != nil || id != testID {
				t.Errorf("create gives %q, %v, want %q", id, err, testID)
			}
			r.host.withDomain(testName, func(d *fakeDomain) {
				if d.state != fakeRunning {
					t.Errorf("state %d, want running", d.state)
				}
			})
			return
		}
		wantErr(t, err, want[name].class, want[name].reason)
		wantUntouched(t, r)
	})
}

func TestOwnership_get(t *testing.T) {
	want := map[string]cell{
		"nothing":              {class: provider.ErrNotFound, reason: provider.ReasonNotFound},
		"ours, same UID":       {uid: testUID},
		"ours, empty UID":      {state: provider.StateProvisioning},
		"ours, other UID":      {uid: otherUID},
		"another owner's":      {class: provider.ErrNotFound, reason: provider.ReasonNotFound},
		"not managed any more": {class: provider.ErrNotFound, reason: provider.ReasonNotFound},
		"unmarked":             {class: provider.ErrNotFound, reason: provider.ReasonNotFound},
	}
	forEachStanding(t, func(t *testing.T, name string, r *rig) {
		t.Helper()
		inst, err := r.Get(t.Context(), testID)
		wantUntouched(t, r)
		if want[name].class != nil {
			wantErr(t, err, want[name].class, want[name].reason)
			return
		}
		if err != nil || inst.UID != want[name].uid || inst.ID != testID {
			t.Errorf("get gives %+v, %v, want the UID %q", inst, err, want[name].uid)
		}
		if want[name].state != "" && inst.State != want[name].state {
			t.Errorf("state %s, want %s", inst.State, want[name].state)
		}
	})
}

func TestOwnership_delete(t *testing.T) {
	want := map[string]cell{
		"nothing":              {},
		"ours, same UID":       {},
		"ours, empty UID":      {},
		"ours, other UID":      {},
		"another owner's":      {class: provider.ErrPermanent, reason: provider.ReasonNotOurs},
		"not managed any more": {class: provider.ErrPermanent, reason: provider.ReasonNotOurs},
		"unmarked":             {class: provider.ErrPermanent, reason: provider.ReasonNotOurs},
	}
	forEachStanding(t, func(t *testing.T, name string, r *rig) {
		t.Helper()
		err := r.Delete(t.Context(), testID)
		if want[name].class != nil {
			wantErr(t, err, want[name].class, want[name].reason)
			wantUntouched(t, r)
			if diff := cmp.Diff(bothVolumes(), own(r.host)); diff != "" {
				t.Errorf("volumes of that name: -want, +got:\n%s", diff)
			}
			return
		}
		if err != nil {
			t.Errorf("delete: %v", err)
		}
		wantNothing(t, r.host, name, shared(r.host))
	})
}

func TestOwnership_listByTag(t *testing.T) {
	want := map[string]cell{
		"ours, same UID":  {listed: true, uid: testUID},
		"ours, empty UID": {listed: true},
		"ours, other UID": {listed: true, uid: otherUID},
	}
	forEachStanding(t, func(t *testing.T, name string, r *rig) {
		t.Helper()
		list, err := r.ListByTag(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := len(list) == 1; got != want[name].listed {
			t.Fatalf("list %+v, want listed %v", list, want[name].listed)
		}
		if want[name].listed && (list[0].UID != want[name].uid || list[0].ID != testID) {
			t.Errorf("listed %+v, want the UID %q", list[0], want[name].uid)
		}
		wantUntouched(t, r)
	})
}

// forEachStanding runs a cell of each row, with the domain running and shut off.
func forEachStanding(t *testing.T, check func(t *testing.T, name string, r *rig)) {
	t.Helper()
	for name, m := range standings() {
		for state, running := range map[string]bool{"running": true, "shut off": false} {
			t.Run(name+", "+state, func(t *testing.T) {
				r := newRig(t)
				plant(t, r, m, running)
				check(t, name, r)
			})
		}
	}
}

func wantUntouched(t *testing.T, r *rig) {
	t.Helper()
	if got := writes(r.host.recorded()); got != nil {
		t.Errorf("what must not be touched was: %v", got)
	}
}

// A domain whose mark cannot be read is never taken for one without a mark.
func TestOwnership_unreadableMarkIsADoubt(t *testing.T) {
	r := newRig(t)
	r.mustCreate(t, testRequest())
	r.host.withDomain(testName, func(d *fakeDomain) { d.rawXML = "<domain type='kvm'><name>x" })
	r.host.forget()
	_, getErr := r.Get(t.Context(), testID)
	_, createErr := r.Create(t.Context(), testRequest())
	deleteErr := r.Delete(t.Context(), testID)
	for call, err := range map[string]error{"get": getErr, "create": createErr, "delete": deleteErr} {
		if !errors.Is(err, provider.ErrTransient) {
			t.Errorf("%s gives %v, want Transient", call, err)
		}
	}
	wantUntouched(t, r)
}
