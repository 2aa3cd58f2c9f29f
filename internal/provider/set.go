package provider

import "errors"

// Set has the providers of a configuration's entries. It does not change.
type Set struct {
	checkURL string
	names    []string
	entries  map[string]setEntry
}

type setEntry struct {
	kind     string
	provider Provider
	err      error
}

// NewSet builds the provider of each entry. An entry that cannot be used keeps its error, and holds up
// no other; one without a name of its own is in no set, only in config.Broken.
func NewSet(config Config, registry Registry, opts Options) *Set {
	s := &Set{checkURL: config.CheckURL, entries: map[string]setEntry{}}
	for _, entry := range config.Providers {
		p, err := registry.New(entry, opts)
		s.add(entry.Name, setEntry{kind: entry.Type, provider: p, err: err})
	}
	for _, broken := range config.Broken {
		if broken.Name != "" {
			_, err := config.Entry(broken.Name)
			s.add(broken.Name, setEntry{kind: broken.Type, err: err})
		}
	}
	return s
}

func (s *Set) add(name string, e setEntry) {
	s.names = append(s.names, name)
	s.entries[name] = e
}

// Names of all entries: first those that can be used, each in the file's order.
func (s *Set) Names() []string { return s.names }

// Type of an entry, as the file has it; "" for an unknown name.
func (s *Set) Type(name string) string { return s.entries[name].kind }

// CheckURL is what is fetched through each new proxy, or CheckURLNone.
func (s *Set) CheckURL() string { return s.checkURL }

// Provider of an entry. The error, ErrPermanent with ReasonInvalidConfig, says why there is none.
func (s *Set) Provider(name string) (Provider, error) {
	e, ok := s.entries[name]
	if !ok {
		return nil, Errorf(ErrPermanent, ReasonInvalidConfig, "the providers file has no entry %q", name)
	}
	return e.provider, e.err
}

// Close ends the connections of every provider that keeps some.
func (s *Set) Close() error {
	var errs []error
	for _, name := range s.names {
		if e := s.entries[name]; e.provider != nil {
			if closer, ok := As[Closer](e.provider); ok {
				errs = append(errs, closer.Close())
			}
		}
	}
	return errors.Join(errs...)
}
