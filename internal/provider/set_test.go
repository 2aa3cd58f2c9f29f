package provider_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// held is a provider whose Get waits for go ahead, and that counts how often it was closed.
type held struct {
	plain
	entered, goAhead chan struct{}
	closed           int
}

func (h *held) Get(context.Context, string) (provider.Instance, error) {
	h.entered <- struct{}{}
	<-h.goAhead
	return provider.Instance{}, nil
}

func (h *held) Close() error { h.closed++; return nil }

// shop builds held providers and keeps them by the entry's name, the last one first.
type shop map[string][]*held

func (s shop) set() *provider.Set {
	build := func(e provider.Entry, _ provider.Options) (provider.Provider, error) {
		h := &held{entered: make(chan struct{}), goAhead: make(chan struct{})}
		s[e.Name] = slices.Insert(s[e.Name], 0, h)
		return h, nil
	}
	return provider.NewSet(provider.Registry{provider.TypeKVM2: build}, provider.Options{Owner: testOwner, Log: logr.Discard()})
}

func configOf(entries ...provider.Entry) provider.Config {
	return provider.Config{CheckURL: "https://example.org/", Providers: entries}
}

func homeEntry(name, bridge string) provider.Entry {
	return provider.Entry{Name: name, Type: provider.TypeKVM2, KVM2: &provider.KVMConfig{Hosts: []provider.KVMHost{{Name: "a", Bridge: bridge}}}}
}

func TestSetApply_namesWhatChangedAndKeepsTheRest(t *testing.T) {
	built := shop{}
	set := built.set()
	if diff := cmp.Diff([]string{"a", "b", "c"}, set.Apply(configOf(homeEntry("a", "br0"), homeEntry("b", "br0"), homeEntry("c", "br0")))); diff != "" {
		t.Errorf("every entry is new at first: -want, +got:\n%s", diff)
	}
	hashA, hashB := set.ConfigHash("a"), set.ConfigHash("b")

	changed := set.Apply(configOf(homeEntry("d", "br0"), homeEntry("a", "br0"), homeEntry("b", "br1")))
	if diff := cmp.Diff([]string{"d", "b", "c"}, changed); diff != "" {
		t.Errorf("added, changed and removed entries are told, those that moved are not: -want, +got:\n%s", diff)
	}
	for name, want := range map[string][]int{"a": {0}, "b": {0, 1}, "c": {1}, "d": {0}} {
		var got []int
		for _, h := range built[name] {
			got = append(got, h.closed)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the providers of %s, newest first, were closed so often: -want, +got:\n%s", name, diff)
		}
	}
	if set.ConfigHash("a") != hashA || set.ConfigHash("b") == hashB || hashA == "" {
		t.Error("an entry's hash changes with its configuration, and with nothing else")
	}
	if _, err := set.Provider("c"); !errors.Is(err, provider.ErrPermanent) {
		t.Errorf("an entry that went has no provider, got %v", err)
	}
}

func TestSetApply_closesAfterTheLastCallUnderWay(t *testing.T) {
	built := shop{}
	set := built.set()
	set.Apply(configOf(homeEntry("a", "br0")))
	old, err := set.Provider("a")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { _, err := old.Get(t.Context(), "x"); ended <- err }()
	first := built["a"][0]
	<-first.entered

	set.Apply(configOf(homeEntry("a", "br1")))
	if first.closed != 0 {
		t.Error("the provider was closed below a call that was under way")
	}
	_, err = old.ListByTag(t.Context())
	if !errors.Is(err, provider.ErrTransient) || provider.ReasonOf(err) != provider.ReasonConfigChanged {
		t.Errorf("a caller that still holds the old provider is told to try again, got %v", err)
	}
	close(first.goAhead)
	if err := <-ended; err != nil {
		t.Errorf("the call that was under way ends as it would have: %v", err)
	}
	if first.closed != 1 {
		t.Errorf("closed %d times after the last call, want once", first.closed)
	}
}

func TestSetApply_aBrokenEntryHoldsUpNoOther(t *testing.T) {
	built := shop{}
	set := built.set()
	problems := provider.Problems{{Path: "providers[1].kvm2.hosts", Message: "is required"}}
	broken := configOf(homeEntry("a", "br0"))
	broken.Broken = []provider.BrokenEntry{{Index: 1, Name: "b", Type: provider.TypeKVM2, Problems: problems}, {Index: 2, Problems: problems}}
	set.Apply(broken)
	if diff := cmp.Diff([]string{"a", "b"}, set.Names()); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if _, err := set.Provider("b"); !errors.Is(err, provider.ErrPermanent) {
		t.Errorf("a broken entry says what is wrong, got %v", err)
	}
	if again := set.Apply(broken); again != nil {
		t.Errorf("an entry that is broken as before did not change, got %v", again)
	}
	if mended := set.Apply(configOf(homeEntry("a", "br0"), homeEntry("b", "br0"))); !slices.Equal(mended, []string{"b"}) {
		t.Errorf("an entry that was mended changed, got %v", mended)
	}
	if err := set.Close(); err != nil || built["a"][0].closed != 1 || built["b"][0].closed != 1 {
		t.Errorf("Close closes each provider: %v", err)
	}
}

func TestSetApply_aCheckOfAnEntryThatChangedSaysSo(t *testing.T) {
	registry := provider.Registry{provider.TypeKVM2: func(provider.Entry, provider.Options) (provider.Provider, error) { return &full{}, nil }}
	set := provider.NewSet(registry, provider.Options{Owner: testOwner, Log: logr.Discard()})
	set.Apply(configOf(homeEntry("a", "br0")))
	old, err := set.Provider("a")
	if err != nil {
		t.Fatal(err)
	}
	checker, ok := provider.As[provider.Checker](old)
	if !ok {
		t.Fatal("full has a Checker")
	}
	set.Apply(configOf())
	checks := checker.Check(t.Context())
	if len(checks) != 1 || checks[0].Ready || checks[0].Reason != provider.ReasonConfigChanged {
		t.Errorf("a check that comes too late must not look like a good one: %+v", checks)
	}
}
