package fake

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Backend is what a hypervisor would keep: instances, and the disks that belong to them by name. It is safe
// for concurrent use, and each call on it takes effect as a whole or not at all.
type Backend struct {
	mu        sync.Mutex
	instances map[place]*instance
	disks     map[place]bool
	bases     map[base]bool
	broken    map[string]error // by zone
	limits    map[string]int   // by zone
	held      bool             // addresses
	addresses int              // given so far
	made      map[place]int
	uids      map[string][]string // by name, every one that it was used with
	scripts   map[Call]*script
	watchers  map[chan string]bool
	through   Interceptor
}

// base is an image that a zone has got for its instances, and keeps.
type base struct{ zone, image string }

// instance as the backend keeps it.
type instance struct {
	mark       *mark // nil: unmarked
	unreadable bool  // the mark
	state      string
	addresses  []string
	placement  provider.Placement
	cloudInit  provider.Secret
}

// stateRunning is the state of an instance that runs. Every other one, known or not, is one that does not.
const stateRunning = "running"

func (i *instance) running() bool { return i.state == stateRunning }

// mark is what makes an instance somebody's.
type mark struct {
	owner, uid, ref string
	createdAt       time.Time
}

// NewBackend makes an empty one in which every zone exists.
func NewBackend() *Backend {
	return &Backend{
		instances: map[place]*instance{}, disks: map[place]bool{}, bases: map[base]bool{}, broken: map[string]error{}, limits: map[string]int{},
		made: map[place]int{}, uids: map[string][]string{}, scripts: map[Call]*script{}, watchers: map[chan string]bool{},
	}
}

var (
	// errAbsent is the backend's proof that there is no such instance.
	errAbsent = errors.New("no such instance")
	// errExists: something stands under the name.
	errExists = errors.New("an instance of this name exists")
)

// call runs one backend call as its script says.
func (b *Backend) call(ctx context.Context, call Call, zone string, effect func() error) error {
	lost, err := b.enter(ctx, call)
	if err != nil {
		return fmt.Errorf("zone %s: %s: %w", zone, call, err)
	}
	b.mu.Lock()
	through := b.through
	b.mu.Unlock()
	whole := func() error { return b.take(zone, effect) }
	if through == nil {
		err = whole()
	} else {
		err = through(ctx, call, zone, whole)
	}
	if lost != nil {
		return fmt.Errorf("zone %s: %s: %w", zone, call, lost)
	}
	return err
}

// take makes a call take effect, unless the zone is broken.
func (b *Backend) take(zone string, effect func() error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.broken[zone]; err != nil {
		return fmt.Errorf("zone %s: %w", zone, err)
	}
	return effect()
}

// lookUp gives a copy of what stands at the place, or errAbsent.
func (b *Backend) lookUp(ctx context.Context, at place) (found instance, err error) {
	err = b.call(ctx, LookUp, at.zone, func() error {
		inst, ok := b.instances[at]
		if !ok {
			return errAbsent
		}
		found = inst.copy()
		return nil
	})
	return found, err
}

// makeDisk makes an instance's disk over the image, which the zone gets with the first one.
func (b *Backend) makeDisk(ctx context.Context, at place, image string) error {
	return b.call(ctx, MakeDisk, at.zone, func() error {
		if limit, limited := b.limits[at.zone]; limited && b.count(at.zone) >= limit {
			return provider.Errorf(provider.ErrQuotaExceeded, provider.ReasonQuotaExceeded,
				"zone %s: there is room for %d instances, and one more is needed", at.zone, limit)
		}
		b.disks[at] = true
		b.bases[base{at.zone, image}] = true
		return nil
	})
}

// define makes the instance visible, with its mark. It never replaces one.
func (b *Backend) define(ctx context.Context, at place, inst instance) error {
	return b.call(ctx, Define, at.zone, func() error {
		if b.instances[at] != nil {
			return errExists
		}
		b.put(at, inst)
		return nil
	})
}

// put places an instance. The caller holds the lock.
func (b *Backend) put(at place, inst instance) {
	b.instances[at] = &inst
	b.made[at]++
	if inst.mark != nil {
		b.remember(at.name, inst.mark.uid)
	}
	b.changed(at)
}

// remember notes which UIDs a name was used with. The caller holds the lock.
func (b *Backend) remember(name, uid string) {
	if uid != "" && !slices.Contains(b.uids[name], uid) {
		b.uids[name] = append(b.uids[name], uid)
	}
}

// complete gives a half-made instance its UID and ref.
func (b *Backend) complete(ctx context.Context, at place, uid, ref string) error {
	return b.change(ctx, Define, at, func(inst *instance) {
		inst.mark.uid, inst.mark.ref = uid, ref
		b.remember(at.name, uid)
	})
}

func (b *Backend) start(ctx context.Context, at place) error {
	return b.change(ctx, Start, at, func(inst *instance) {
		inst.state = stateRunning
		if !b.held && len(inst.addresses) == 0 {
			b.addresses++
			inst.addresses = []string{fmt.Sprintf("198.18.%d.%d", b.addresses/250%250, b.addresses%250+1)}
		}
	})
}

func (b *Backend) stop(ctx context.Context, at place) error {
	return b.change(ctx, StopInstance, at, func(inst *instance) { inst.state, inst.addresses = "off", nil })
}

func (b *Backend) undefine(ctx context.Context, at place) error {
	return b.call(ctx, Undefine, at.zone, func() error {
		delete(b.instances, at)
		b.changed(at)
		return nil
	})
}

func (b *Backend) removeDisk(ctx context.Context, at place) error {
	return b.call(ctx, RemoveDisk, at.zone, func() error {
		delete(b.disks, at)
		return nil
	})
}

// change edits the instance at the place, or returns errAbsent.
func (b *Backend) change(ctx context.Context, call Call, at place, edit func(*instance)) error {
	return b.call(ctx, call, at.zone, func() error {
		inst, ok := b.instances[at]
		if !ok {
			return errAbsent
		}
		edit(inst)
		b.changed(at)
		return nil
	})
}

// list gives the places of a zone that something stands at, by name.
func (b *Backend) list(ctx context.Context, zone string) (places []place, err error) {
	err = b.call(ctx, ListZone, zone, func() error {
		places = b.places(func(at place) bool { return at.zone == zone })
		return nil
	})
	return places, err
}

// places gives those of the instances that match, by zone and name. The caller holds the lock.
func (b *Backend) places(match func(place) bool) []place {
	var out []place
	for at := range b.instances {
		if match(at) {
			out = append(out, at)
		}
	}
	slices.SortFunc(out, func(a, b place) int { return cmp.Or(cmp.Compare(a.zone, b.zone), cmp.Compare(a.name, b.name)) })
	return out
}

func (b *Backend) count(zone string) int {
	return len(b.places(func(at place) bool { return at.zone == zone }))
}

func (i *instance) copy() instance {
	out := *i
	out.addresses = slices.Clone(i.addresses)
	if i.mark != nil {
		m := *i.mark
		out.mark = &m
	}
	return out
}

// macOf derives a hardware address from a UID, in the range of QEMU.
func macOf(uid string) string {
	sum := sha256.Sum256([]byte(uid))
	return fmt.Sprintf("52:54:00:%02x:%02x:%02x", sum[0], sum[1], sum[2])
}
