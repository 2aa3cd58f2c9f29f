// Package provider is the contract between the operator and whatever makes virtual machines: the
// interface, its types, its error classes, its configuration and its registry. The rules in words,
// with an id each, are in docs/provider-contract.md; comments here cite those ids.
//
// The package knows no Kubernetes and no backend library.
package provider

import "context"

// Provider makes, reads, removes and lists instances in one backend. All methods are safe for
// concurrent use (R2.1.1), return within a second of ctx's end (R2.1.2), and return nil or a *Error of
// one of the four classes (R8.1.1, R8.1.2).
type Provider interface {
	// Create makes the instance that req describes, or finishes one that an earlier call left half
	// made, and returns its ID. The same request twice, twenty at once, or again after a crash at any
	// point, gives one instance and one ID (R2.2.2 to R2.2.5). An existing stopped instance is started
	// (R2.2.13).
	// It returns ErrPermanent with ReasonNameConflict when something that is not this instance
	// stands under the name (R2.2.14 to R2.2.16), ErrQuotaExceeded when the backend has no room
	// (R2.2.25), and never ErrNotFound (R2.2.26).
	Create(ctx context.Context, req CreateRequest) (id string, err error)

	// Get reads one instance. ErrNotFound means positive proof that it does not exist; every doubt is
	// another class (R2.3.3, R2.3.4). A malformed ID is ErrPermanent (R2.3.9).
	Get(ctx context.Context, id string) (Instance, error)

	// Delete removes the instance and everything that Create made for it, whatever state it is in,
	// and returns nil when nothing of it is left, also when nothing was there (R2.4.1 to R2.4.5). What
	// does not carry this installation's mark is never touched: ErrPermanent with ReasonNotOurs (R2.4.6,
	// R2.4.7).
	Delete(ctx context.Context, id string) error

	// ListByTag lists the instances that carry this installation's mark, half-made ones included. An
	// unreachable part of the backend is an error for the whole list (R2.5.4). An instance that cannot be
	// read is left out (R2.5.5), so absence is never concluded from a list: only Get can say NotFound
	// (R12.4).
	ListByTag(ctx context.Context) ([]Instance, error)
}

// Checker is optional: the health of each part of the backend that can fail alone.
type Checker interface {
	// Check returns one entry per configured host, in configuration order, always (R2.6.1): what could
	// not be checked before ctx ended is an entry that is not ready (R2.6.3). The number of backend calls
	// does not depend on the number of instances (R2.6.5).
	Check(ctx context.Context) []HostCheck
}

// Identifier is optional: the ID that Create would return, known before Create, so that a caller can
// write it down first.
type Identifier interface {
	// IDFor makes no backend call (R2.7.2). It returns ErrPermanent for a request that Create would refuse
	// without asking the backend (R2.7.3).
	IDFor(req CreateRequest) (string, error)
}

// Watcher is optional: IDs of instances that may have changed. It is a hint: missing one, or
// sending one too many, is allowed.
type Watcher interface {
	// Watch sends until ctx ends, then closes the channel (R2.8.1).
	Watch(ctx context.Context) (<-chan string, error)
}

// Renderer is optional: what Create would send to the backend, without touching it.
type Renderer interface {
	// Render returns named documents and makes no backend call (R2.9.1). Secrets in them are shown: the
	// caller asked for them.
	Render(req CreateRequest) ([]Document, error)
}

// Document is one text that a Renderer returns.
type Document struct {
	Name    string // for example "domain.xml"
	Content string
}

// Closer is optional: a provider that keeps connections implements it (R10.5). After Close no other
// method is called.
type Closer interface {
	// Close ends every connection and goroutine within a second (R2.10.1, R2.10.2). Closing again is nil.
	Close() error
}

// Guarder is optional: destinations that an instance must never be a way to, beside the ranges that
// are closed for every instance. The hypervisor that it runs on is one.
type Guarder interface {
	// GuardedDestinations makes no backend call (R2.11.1). Each is a CIDR, an IP address or a host name
	// (R2.11.2). An unknown zone is ErrPermanent (R2.11.4).
	GuardedDestinations(p Placement) ([]string, error)
}

// MACAddresser is optional: the hardware address that the instance will have, known before Create, so
// that a DHCP reservation can be made first.
type MACAddresser interface {
	// MACFor makes no backend call. It gives lower-case hex with colons, the same for the same UID.
	MACFor(req CreateRequest) string
}
