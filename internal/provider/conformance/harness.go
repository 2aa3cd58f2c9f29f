package conformance

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// NewHarness makes the harness of one case. Backends that can be made at will (a fake, an emulator) are new for
// each; a real one is shared, and then only what the case itself makes is looked at.
type NewHarness func(ctx context.Context, s Setup) (*Harness, error)

// Setup is what the suite gives a harness.
type Setup struct {
	// Log is for provider.Options.Log: the suite reads what is logged there (R8.4.5, R8.3.1).
	Log logr.Logger
}

// Harness is one provider over one backend. Fields that are not marked as required may be left out: what
// cannot be shown without them is then reported as not shown.
//
// A function that can do a part of what it says returns errors.ErrUnsupported for the rest, which counts as
// left out. Functions get the ID that Create returned, are safe for concurrent use and change the backend
// without the provider.
type Harness struct {
	// Provider under test, as its factory builds it: not the one of Registry.New, whose spans and error names
	// would be taken for its own. Required.
	Provider provider.Provider
	// Name and Type of its entry. Required.
	Name, Type string
	// Owner that it was built with. Required.
	Owner string
	// Axes are the codes of its spec. Required, a code for each axis of the contract's section 4.20.
	Axes Axes
	// Zones are the entry's hosts, in the entry's order. Required; rules about several hosts need two.
	Zones []string
	// Request builds a valid request for an instance that was never asked for before. Required; the suite
	// sets the user-data, and the zone where it wants another one.
	Request func() provider.CreateRequest

	// Look gives everything that stands in the backend, whoever made it, without the provider.
	Look func(ctx context.Context) ([]Thing, error)
	// Build makes another provider on the same backend, as a restarted process would, or a differently
	// configured one.
	Build func(v Variation) (provider.Provider, error)
	// Faults makes backend calls go wrong and counts them.
	Faults Faults
	// Close ends the harness. The suite has deleted by then what it had created; what Plant made, Close removes.
	Close func()

	// Plant puts an instance with its secondary resources into the backend, as something else than the provider
	// would have, and returns the ID that the provider would give it.
	Plant func(ctx context.Context, p Planted) (id string, err error)
	// SetMark replaces the mark of an instance, also one that SpoilMark spoilt; nil takes it away.
	SetMark func(ctx context.Context, id string, m *Mark) error
	// SpoilMark makes the mark of an instance unreadable.
	SpoilMark func(ctx context.Context, id string) error
	// SetPower changes whether an instance runs.
	SetPower func(ctx context.Context, id string, p Power) error
	// SetInterfaces says what network interfaces and addresses the guest of a running instance has.
	SetInterfaces func(ctx context.Context, id string, interfaces ...Interface) error
	// Remove takes an instance away and leaves its secondary resources.
	Remove func(ctx context.Context, id string) error
	// RemoveResource takes one secondary resource of an instance away and leaves the rest.
	RemoveResource func(ctx context.Context, id string) error
	// Fill leaves no room for one more instance in a zone.
	Fill func(ctx context.Context, zone string) error
	// FailWork lets the backend's work on the instances made from now on fail, until mended. For asynchronous
	// providers.
	FailWork func(ctx context.Context) (mend func(), err error)
	// HoldWork keeps the backend working on the instances that are made, or removed, from now on, until released. For
	// asynchronous providers, and for those that resume a Delete.
	HoldWork func(ctx context.Context) (release func(), err error)
	// GuestPrints lets the guest of an instance write a text wherever its first-boot work writes, and end badly.
	GuestPrints func(ctx context.Context, id, text string) error
	// Connections counts those that are open to the backend.
	Connections func() int
	// Hypervisor gives the address of the host behind a zone.
	Hypervisor func(zone string) string

	// BadImage is an image key of the entry whose image cannot be used.
	BadImage string
	// ElsewhereID is a well-formed ID on a host that the entry does not have.
	ElsewhereID string
	// Credentials are texts that the provider must never tell, beside the user-data.
	Credentials []string
	// URLSecrets are the user parts and queries of URLs in the entry.
	URLSecrets []string

	// Patience is how long one call may take that nothing holds up. 30 s where it is zero.
	Patience time.Duration
	// Stride lets a fault meet only each nth call of what it is swept over, where a call takes long. Every one where it
	// is zero.
	Stride int
	// Many is how many instances a list is tried with. 200 where it is zero.
	Many int
}

// Thing is what an independent look finds: an instance, or what stands beside instances.
type Thing struct {
	Kind Kind
	Zone string
	// Name in the backend.
	Name string
	// Of is the name of the instance that a Resource belongs to.
	Of string
	// Mark of an instance; nil where it has none.
	Mark *Mark
	// Running says that the backend runs the instance.
	Running bool
	// Content is everything else of it that stands still while nobody changes it, the mark as it is written
	// included, and the content of a Resource not: that may hold the user-data. It is compared as text, and
	// searched for secrets.
	Content string
}

// Kind of a Thing.
type Kind string

// The kinds of things.
const (
	Instance Kind = "instance"
	Resource Kind = "secondary resource"
	Shared   Kind = "shared resource"
)

// Mark is the mark of the contract's section 3.2, of an instance of which a provider says that it manages it.
type Mark struct {
	Owner, UID, Ref string
	CreatedAt       time.Time
}

// Planted is an instance that the provider did not make.
type Planted struct {
	Zone, Name string
	// Mark is nil for an instance without one.
	Mark *Mark
	// UID of the instance in the backend, where the backend has such a thing beside the mark.
	UID string
}

// Power is whether an instance runs.
type Power string

// The powers that SetPower is asked for. Odd is a state that the provider does not know.
const (
	On      Power = "running"
	Off     Power = "off"
	Paused  Power = "paused"
	Crashed Power = "crashed"
	Odd     Power = "a state that the provider does not know"
)

// Interface is a network interface as a guest, or its network, tells of it.
type Interface struct {
	// MAC is empty for the instance's own.
	MAC       string
	Addresses []string
}

// Variation is how another provider differs from the harness's one. The zero value does not: it is the
// same after a restart.
type Variation struct {
	// Owner of another installation, where it is not empty.
	Owner string
	// Zones are the hosts of the entry, where it is not nil: a part of those of the harness.
	Zones []string
	// Access is the state of the credentials.
	Access Access
	// Log is for provider.Options.Log, where it is not the zero value.
	Log logr.Logger
}

// Access is what is wrong with the way in.
type Access string

// What can be wrong with the way in.
const (
	Granted       Access = ""
	FileMissing   Access = "credential file missing"
	FileMalformed Access = "credential file malformed"
	Refused       Access = "credentials refused"
	WrongPeer     Access = "another identity at the far end"
)
