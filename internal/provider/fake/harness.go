package fake

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/conformance"
)

// What the harness's provider is called, and the hosts that it has.
const (
	harnessName    = "fake-entry"
	harnessElse    = "elsewhere"
	harnessAttempt = 5 * time.Second
)

var harnessZones = []string{"beelink", "nuc"}

// Axes are the fake's codes in the contract's section 4.20.
func Axes() conformance.Axes {
	return conformance.Axes{
		"create-return": "blocking", "provisioning-state": "create-blocks", "child-spans": "none", "quota": "configured",
		"credentials": "none", "client-kind": "in-process", "gc-mark": "written-metadata", "created-at": "written-at-create",
		"ip-source": "assigned", "list-partial": "fail-whole", "not-found": "error-code", "delete-return": "waits",
		"secondary-resources": "explicit", "timeouts": "caller-only", "logging": "outcome-only", "backend-test": "none",
	}
}

// NewHarness is the fake as the conformance suite tries it: a provider of two zones over a backend of its own.
func NewHarness(_ context.Context, s conformance.Setup) (*conformance.Harness, error) {
	b := NewBackend()
	build := func(v conformance.Variation) (*Provider, error) {
		if v.Access != conformance.Granted {
			return nil, errors.ErrUnsupported // there are no credentials
		}
		owner, zones, log := DefaultOwner, harnessZones, s.Log
		if v.Owner != "" {
			owner = v.Owner
		}
		if v.Zones != nil {
			zones = v.Zones
		}
		if v.Log.GetSink() != nil {
			log = v.Log
		}
		return New(harnessName, WithBackend(b), WithOwner(owner), WithZones(zones...), WithLog(log)), nil
	}
	p, err := build(conformance.Variation{})
	if err != nil {
		return nil, err
	}
	h := &conformance.Harness{
		Provider: p, Name: harnessName, Type: Type, Owner: DefaultOwner, Axes: Axes(), Zones: harnessZones,
		Request: harnessRequest, Look: b.things, Faults: b.faults(), Patience: harnessAttempt,
		Build:       func(v conformance.Variation) (provider.Provider, error) { return build(v) },
		ElsewhereID: ID(harnessElse, "anything"),
		Hypervisor:  func(zone string) string { return p.hypervisor(zone) },
	}
	b.control(h)
	return h, nil
}

func harnessRequest() provider.CreateRequest {
	const ref = "conformance/instance"
	uid := uuid.New().String()
	return provider.CreateRequest{
		Name: provider.InstanceName(DefaultOwner, ref, uid), UID: uid, Owner: DefaultOwner, Ref: ref,
		Placement: provider.Placement{Zone: harnessZones[0], MachineType: DefaultMachineType, Image: DefaultImage},
	}
}

// control gives a harness what can be done to the backend behind the provider's back.
func (b *Backend) control(h *conformance.Harness) {
	h.Plant = func(_ context.Context, p conformance.Planted) (string, error) {
		what := Planted{Zone: p.Zone, Name: p.Name}
		if p.Mark != nil {
			what.Owner, what.UID, what.Ref, what.CreatedAt = p.Mark.Owner, p.Mark.UID, p.Mark.Ref, p.Mark.CreatedAt
		}
		return b.Plant(what), nil
	}
	h.SetMark = b.on(func(inst *instance, m *conformance.Mark) {
		inst.mark, inst.unreadable = nil, false
		if m != nil {
			inst.mark = &mark{owner: m.Owner, uid: m.UID, ref: m.Ref, createdAt: m.CreatedAt}
		}
	})
	spoil := b.on(func(inst *instance, _ *conformance.Mark) { inst.unreadable = true })
	h.SpoilMark = func(ctx context.Context, id string) error { return spoil(ctx, id, nil) }
	h.SetPower = func(_ context.Context, id string, p conformance.Power) error {
		b.SetState(id, string(p))
		return nil
	}
	h.SetInterfaces = func(_ context.Context, id string, interfaces ...conformance.Interface) error {
		var addresses []string
		for _, i := range interfaces {
			if i.MAC == "" { // the backend assigns no others
				addresses = append(addresses, i.Addresses...)
			}
		}
		b.SetAddresses(id, addresses...)
		return nil
	}
	h.Remove = func(ctx context.Context, id string) error {
		if _, ok := b.Look(id); !ok {
			return errAbsent
		}
		b.Remove(id)
		return nil
	}
	h.RemoveResource = func(_ context.Context, id string) error {
		b.RemoveDisk(id)
		return nil
	}
	h.Fill = func(_ context.Context, zone string) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.limits[zone] = b.count(zone)
		return nil
	}
}

// on changes the instance of an ID, or gives errAbsent.
func (b *Backend) on(change func(*instance, *conformance.Mark)) func(context.Context, string, *conformance.Mark) error {
	return func(_ context.Context, id string, m *conformance.Mark) error {
		if _, ok := b.Look(id); !ok {
			return errAbsent
		}
		b.edit(id, func(inst *instance) { change(inst, m) })
		return nil
	}
}

// things is the independent look.
func (b *Backend) things(context.Context) ([]conformance.Thing, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []conformance.Thing
	for at, inst := range b.instances {
		thing := conformance.Thing{
			Kind: conformance.Instance, Zone: at.zone, Name: at.name, Running: inst.running(),
			Content: fmt.Sprintf("state %s, addresses %v, placement %+v, unreadable %v", inst.state, inst.addresses, inst.placement, inst.unreadable),
		}
		if m := inst.mark; m != nil {
			thing.Mark = &conformance.Mark{Owner: m.owner, UID: m.uid, Ref: m.ref, CreatedAt: m.createdAt}
		}
		out = append(out, thing)
	}
	for at := range b.disks {
		out = append(out, conformance.Thing{Kind: conformance.Resource, Zone: at.zone, Name: "disk of " + at.name, Of: at.name})
	}
	for base := range b.bases {
		out = append(out, conformance.Thing{Kind: conformance.Shared, Zone: base.zone, Name: "image " + base.image})
	}
	return out, nil
}

// faults puts a script before the backend.
func (b *Backend) faults() *conformance.Script {
	script := &conformance.Script{Errors: map[conformance.FaultKind]error{
		conformance.Strange:     errors.New("error 4711"),
		conformance.Denied:      provider.Errorf(provider.ErrPermanent, provider.ReasonPermissionDenied, "permission denied"),
		conformance.Busy:        provider.Errorf(provider.ErrTransient, provider.ReasonBackendError, "the backend is busy"),
		conformance.Missing:     errAbsent,
		conformance.Garbled:     errors.New("unexpected end of input"),
		conformance.Dropped:     provider.Errorf(provider.ErrTransient, provider.ReasonUnreachable, "the connection is lost"),
		conformance.Late:        provider.Errorf(provider.ErrTransient, provider.ReasonTimeout, "no answer in time"),
		conformance.Unreachable: Unreachable(),
	}}
	b.Intercept(func(ctx context.Context, call Call, zone string, effect func() error) error {
		err := script.Through(ctx, conformance.Call{Host: zone, Name: string(call), Kind: kindOf(call)}, effect)
		if err == nil || errors.Is(err, errAbsent) || errors.Is(err, errExists) || ctx.Err() != nil {
			return err
		}
		return fmt.Errorf("zone %s: %s: %w", zone, call, err)
	})
	return script
}

func kindOf(call Call) conformance.CallKind {
	switch call {
	case MakeDisk, Define, Start, StopInstance, Undefine, RemoveDisk:
		return conformance.Change
	default:
		return conformance.Read
	}
}
