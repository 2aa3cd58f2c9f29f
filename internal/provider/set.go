package provider

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"sync"
)

// Set has the providers of a configuration's entries. Apply takes a changed configuration over while
// they are in use. All methods are safe for concurrent use.
type Set struct {
	registry Registry
	opts     Options

	mu       sync.RWMutex
	checkURL string
	names    []string
	entries  map[string]setEntry
}

type setEntry struct {
	kind     string
	config   Entry // zero for an entry that cannot be used
	provider Provider
	err      error
}

// NewSet makes a set without entries, which builds providers with registry and opts.
func NewSet(registry Registry, opts Options) *Set {
	return &Set{registry: registry, opts: opts, checkURL: CheckURLNone}
}

// Apply takes a configuration over and names the entries that were added, changed or removed, in its
// order, removed ones last. An entry that did not change keeps its provider, and with it connections
// and what is under way. The provider of one that changed or went takes no further call: those answer
// ErrTransient with ReasonConfigChanged. It is closed when the calls under way have ended, which have
// limits of their own. An entry that cannot be used keeps its error, and holds up no other; one without
// a name of its own is in no set, only in config.Broken.
func (s *Set) Apply(config Config) (changed []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.entries
	s.checkURL, s.names, s.entries = config.CheckURL, nil, map[string]setEntry{}
	add := func(name string, e setEntry) {
		s.names = append(s.names, name)
		s.entries[name] = e
		if old, was := before[name]; !was || !old.same(e) {
			changed = append(changed, name)
		}
	}
	for _, entry := range config.Providers {
		if old, was := before[entry.Name]; was && old.err == nil && reflect.DeepEqual(old.config, entry) {
			add(entry.Name, old)
			continue
		}
		p, err := s.registry.New(entry, s.opts)
		add(entry.Name, setEntry{kind: entry.Type, config: entry, provider: p, err: err})
	}
	for _, broken := range config.Broken {
		if broken.Name != "" {
			_, err := config.Entry(broken.Name)
			add(broken.Name, setEntry{kind: broken.Type, err: err})
		}
	}
	for name, old := range before {
		if now, stays := s.entries[name]; stays && now.provider == old.provider {
			continue
		} else if !stays {
			changed = append(changed, name)
		}
		s.retire(name, old.provider)
	}
	return changed
}

// same says whether nothing changed from e to now.
func (e setEntry) same(now setEntry) bool {
	if e.err != nil && now.err != nil {
		return e.kind == now.kind && e.err.Error() == now.err.Error()
	}
	return e.provider == now.provider
}

func (s *Set) retire(name string, p Provider) {
	decorated, ok := p.(*instrumented)
	if !ok {
		return // an entry that could not be used
	}
	decorated.use.retire(func() {
		if err := decorated.close(); err != nil {
			s.opts.Log.Error(err, "close the provider of an entry that changed", "entry", name)
		}
	})
}

// Names of all entries: first those that can be used, each in the file's order.
func (s *Set) Names() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.names)
}

// Type of an entry, as the file has it; "" for an unknown name.
func (s *Set) Type(name string) string { return s.entry(name).kind }

// ConfigHash tells one configuration of an entry from another: 16 hex digits, "" for an entry that
// cannot be used.
func (s *Set) ConfigHash(name string) string {
	e := s.entry(name)
	if e.err != nil || e.provider == nil {
		return ""
	}
	encoded, err := json.Marshal(e.config)
	if err != nil {
		return "" // it holds strings and numbers only
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:8])
}

// CheckURL is what is fetched through each new proxy, or CheckURLNone.
func (s *Set) CheckURL() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.checkURL
}

// Provider of an entry. The error, ErrPermanent with ReasonInvalidConfig, says why there is none.
func (s *Set) Provider(name string) (Provider, error) {
	e := s.entry(name)
	if e.provider == nil && e.err == nil {
		return nil, Errorf(ErrPermanent, ReasonInvalidConfig, "the providers file has no entry %q", name)
	}
	return e.provider, e.err
}

func (s *Set) entry(name string) setEntry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.entries[name]
}

// Close ends the connections of every provider that keeps some.
func (s *Set) Close() error {
	var errs []error
	for _, name := range s.Names() {
		if p, ok := s.entry(name).provider.(*instrumented); ok {
			errs = append(errs, p.close())
		}
	}
	return errors.Join(errs...)
}
