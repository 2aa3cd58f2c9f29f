package fake

import (
	"fmt"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// What a test does to the backend behind the provider's back. IDs are those of Create or ID; one under
// which nothing stands is a mistake of the test, and panics.

// Stop switches an instance off.
func (b *Backend) Stop(id string) { b.SetState(id, "off") }

// SetState puts an instance into a state of the backend's: "running", or any other, which are all states in which
// it does not run.
func (b *Backend) SetState(id, state string) {
	b.edit(id, func(inst *instance) {
		if inst.state = state; !inst.running() {
			inst.addresses = nil
		}
	})
}

// Remove takes an instance away and leaves its disk.
func (b *Backend) Remove(id string) {
	b.edit(id, func(*instance) { delete(b.instances, mustParse(id)) })
}

// RemoveDisk takes an instance's disk away and leaves the instance.
func (b *Backend) RemoveDisk(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.disks, mustParse(id))
}

// ForgetUID makes an instance half made: its mark stays without a UID.
func (b *Backend) ForgetUID(id string) { b.edit(id, func(inst *instance) { inst.mark.uid = "" }) }

// SpoilMark makes the mark unreadable.
func (b *Backend) SpoilMark(id string) { b.edit(id, func(inst *instance) { inst.unreadable = true }) }

// HoldAddresses lets instances start without an address from now on.
func (b *Backend) HoldAddresses() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = true
}

// SetAddresses gives an instance its addresses; none takes them away.
func (b *Backend) SetAddresses(id string, addresses ...string) {
	b.edit(id, func(inst *instance) { inst.addresses = addresses })
}

// Planted is something that a provider did not make.
type Planted struct {
	Zone, Name string
	// Owner, UID, Ref and CreatedAt are the mark's. Without an Owner there is no mark.
	Owner, UID, Ref string
	CreatedAt       time.Time
	Stopped         bool
}

// Plant puts an instance with a disk into the backend and returns its ID.
func (b *Backend) Plant(what Planted) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := place{zone: what.Zone, name: what.Name}
	if b.instances[at] != nil {
		panic("fake: something stands at " + at.id())
	}
	inst := instance{state: stateRunning}
	if what.Stopped {
		inst.state = "off"
	}
	if what.Owner != "" {
		inst.mark = &mark{owner: what.Owner, uid: what.UID, ref: what.Ref, createdAt: what.CreatedAt}
	}
	b.disks[at] = true
	b.put(at, inst)
	return at.id()
}

// FailHost makes every call on a zone end in err, which nil mends. An error without a class is a host that
// cannot be reached.
func (b *Backend) FailHost(zone string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken[zone] = err
}

// Unreachable is an error for FailHost and Fail.
func Unreachable() error {
	return provider.Errorf(provider.ErrTransient, provider.ReasonUnreachable, "the host cannot be reached")
}

// Limit sets how many instances a zone has room for.
func (b *Backend) Limit(zone string, instances int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limits[zone] = instances
}

// edit changes the instance of an ID.
func (b *Backend) edit(id string, change func(*instance)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := mustParse(id)
	inst, ok := b.instances[at]
	if !ok {
		panic("fake: nothing stands at " + id)
	}
	change(inst)
	b.changed(at)
}

func mustParse(id string) place {
	at, err := parse(id)
	if err != nil {
		panic(fmt.Sprintf("fake: %v", err))
	}
	return at
}

// RemoveImage takes away an image that a zone has got for its instances.
func (b *Backend) RemoveImage(zone, image string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.bases, base{zone, image})
}

// LeaveDisk leaves the disk of an instance that is not there.
func (b *Backend) LeaveDisk(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.disks[mustParse(id)] = true
}
