package provider

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-logr/logr"
)

// Options are what every provider is built with, beside its entry.
type Options struct {
	// Owner is this installation's identity: what carries another one is not ours.
	Owner string
	// Log is used where a call's ctx carries no logger (logr.FromContext).
	Log logr.Logger
}

// Factory builds the provider of an entry. It makes no connection and reads no file that may come
// later; it warns of unreadable ones. The entry was validated and has its defaults set.
type Factory func(entry Entry, opts Options) (Provider, error)

// Registry maps an entry's type to its factory.
type Registry map[string]Factory

// New builds the provider of an entry, instrumented: each call opens a span and every error has the
// entry's name. Its optional interfaces are found with As, and not by a type assertion. A type that is
// not registered is ErrPermanent with ReasonInvalidConfig.
func (r Registry) New(entry Entry, opts Options) (Provider, error) {
	factory, ok := r[entry.Type]
	if !ok {
		known := strings.Join(slices.Sorted(maps.Keys(r)), ", ")
		return nil, Wrap(entry.Name, Errorf(ErrPermanent, ReasonInvalidConfig,
			"there is no provider of type %s, only %s", quote(entry.Type), known))
	}
	p, err := factory(entry, opts)
	if err != nil {
		return nil, Wrap(entry.Name, err)
	}
	return &instrumented{inner: p, name: entry.Name, kind: entry.Type}, nil
}
