package provider

import "github.com/go-logr/logr"

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
