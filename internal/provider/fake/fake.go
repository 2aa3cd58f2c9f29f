// Package fake is an in-memory provider that obeys docs/provider-contract.md in full, for the tests of what
// calls providers. It is a Backend, the state that outlives a Provider, and Providers over it: two of them
// are two processes, or one before and after a restart; two of different owners are two installations.
//
// A test scripts the backend (Fail, LoseAnswer, Block, FailHost, Limit), changes it behind the provider's
// back (Stop, Remove, Plant, HoldAddresses), and asks it what stands there (Look, Instances, Disks).
package fake

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Type is the type under which tests register Factory.
const Type = "fake"

// What New takes where no option says otherwise.
const (
	DefaultOwner       = "owner-1"
	DefaultZone        = "beelink"
	DefaultMachineType = "small"
	DefaultImage       = "debian-13"
)

// Provider is the in-memory provider. It has the optional interfaces Checker, Identifier, Watcher and
// Guarder; a test that needs one without them puts it into a struct{ provider.Provider }.
type Provider struct {
	name         string
	owner        string
	backend      *Backend
	zones        []string
	machineTypes []string
	images       []string
	log          logr.Logger
	now          func() time.Time

	mu   sync.Mutex
	busy map[place]chan struct{} // one token per name: Create and Delete of it take turns
}

var _ interface {
	provider.Provider
	provider.Checker
	provider.Identifier
	provider.Watcher
	provider.Guarder
} = (*Provider)(nil)

// Option changes what New makes.
type Option func(*Provider)

// WithBackend puts the provider over a backend that others may use too.
func WithBackend(b *Backend) Option { return func(p *Provider) { p.backend = b } }

// WithOwner sets the installation's identity.
func WithOwner(owner string) Option { return func(p *Provider) { p.owner = owner } }

// WithZones sets the hosts, in the order of lists and checks.
func WithZones(zones ...string) Option { return func(p *Provider) { p.zones = zones } }

// WithMachineTypes sets the machine types that a placement may name.
func WithMachineTypes(names ...string) Option { return func(p *Provider) { p.machineTypes = names } }

// WithImages sets the images that a placement may name.
func WithImages(names ...string) Option { return func(p *Provider) { p.images = names } }

// WithLog sets the logger of calls whose ctx carries none.
func WithLog(log logr.Logger) Option { return func(p *Provider) { p.log = log } }

// WithClock sets the clock of creation times.
func WithClock(now func() time.Time) Option { return func(p *Provider) { p.now = now } }

// New makes a provider with the configured name, over a backend of its own unless an option says
// otherwise.
func New(name string, opts ...Option) *Provider {
	p := &Provider{
		name: name, owner: DefaultOwner, zones: []string{DefaultZone},
		machineTypes: []string{DefaultMachineType}, images: []string{DefaultImage},
		log: logr.Discard(), now: time.Now, busy: map[place]chan struct{}{},
	}
	for _, opt := range opts {
		opt(p)
	}
	if p.backend == nil {
		p.backend = NewBackend()
	}
	return p
}

// Factory builds a provider over a backend of its own, for a registry. Zones, machine types and images are
// those of the entry's kvm2 block, where it has one.
func Factory(entry provider.Entry, opts provider.Options) (provider.Provider, error) {
	return FactoryOver(NewBackend())(entry, opts)
}

// FactoryOver is a Factory whose providers share a backend that the test holds.
func FactoryOver(b *Backend) provider.Factory {
	return func(entry provider.Entry, opts provider.Options) (provider.Provider, error) {
		p := New(entry.Name, WithBackend(b), WithOwner(opts.Owner), WithLog(opts.Log))
		if block := entry.KVM2; block != nil {
			p.zones, p.machineTypes, p.images = nil, nil, nil
			for _, h := range block.Hosts {
				p.zones = append(p.zones, h.Name)
			}
			for name := range block.MachineTypes {
				p.machineTypes = append(p.machineTypes, name)
			}
			for name := range block.Images {
				p.images = append(p.images, name)
			}
		}
		return p, nil
	}
}

// Backend gives the state that the provider works on.
func (p *Provider) Backend() *Backend { return p.backend }

// takeTurn waits until no other Create or Delete of the place runs in this provider, or ctx ends.
func (p *Provider) takeTurn(ctx context.Context, at place) (done func(), err error) {
	p.mu.Lock()
	token, ok := p.busy[at]
	if !ok {
		token = make(chan struct{}, 1)
		p.busy[at] = token
	}
	p.mu.Unlock()
	select {
	case token <- struct{}{}:
		return func() { <-token }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// configured reports whether the entry has the zone.
func (p *Provider) configured(zone string) bool { return slices.Contains(p.zones, zone) }

// finish ends a method: its error gets the configured name, and its outcome one line at V(1).
func (p *Provider) finish(ctx context.Context, method Call, instance string, start time.Time, err error) error {
	err = provider.Wrap(p.name, err)
	outcome := "ok"
	if err != nil {
		outcome = provider.ReasonOf(err)
	}
	log, noLogger := logr.FromContext(ctx)
	if noLogger != nil {
		log = p.log
	}
	log.V(1).Info("fake."+string(method), "instance", instance, "duration", time.Since(start), "outcome", outcome)
	return err
}
