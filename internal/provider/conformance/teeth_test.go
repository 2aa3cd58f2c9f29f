package conformance_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/conformance"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/fake"
)

// broken is the provider in memory with one defect: a method that is set is called instead of its own.
type broken struct {
	*fake.Provider
	create func(context.Context, provider.CreateRequest) (string, error)
	get    func(context.Context, string) (provider.Instance, error)
	delete func(context.Context, string) error
	list   func(context.Context) ([]provider.Instance, error)
	check  func(context.Context) []provider.HostCheck
	idFor  func(provider.CreateRequest) (string, error)
	watch  func(context.Context) (<-chan string, error)
	guard  func(provider.Placement) ([]string, error)
}

func (b *broken) Create(ctx context.Context, req provider.CreateRequest) (string, error) {
	if b.create != nil {
		return b.create(ctx, req)
	}
	return b.Provider.Create(ctx, req)
}

func (b *broken) Get(ctx context.Context, id string) (provider.Instance, error) {
	if b.get != nil {
		return b.get(ctx, id)
	}
	return b.Provider.Get(ctx, id)
}

func (b *broken) Delete(ctx context.Context, id string) error {
	if b.delete != nil {
		return b.delete(ctx, id)
	}
	return b.Provider.Delete(ctx, id)
}

func (b *broken) ListByTag(ctx context.Context) ([]provider.Instance, error) {
	if b.list != nil {
		return b.list(ctx)
	}
	return b.Provider.ListByTag(ctx)
}

func (b *broken) Check(ctx context.Context) []provider.HostCheck {
	if b.check != nil {
		return b.check(ctx)
	}
	return b.Provider.Check(ctx)
}

func (b *broken) IDFor(req provider.CreateRequest) (string, error) {
	if b.idFor != nil {
		return b.idFor(req)
	}
	return b.Provider.IDFor(req)
}

func (b *broken) Watch(ctx context.Context) (<-chan string, error) {
	if b.watch != nil {
		return b.watch(ctx)
	}
	return b.Provider.Watch(ctx)
}

func (b *broken) GuardedDestinations(at provider.Placement) ([]string, error) {
	if b.guard != nil {
		return b.guard(at)
	}
	return b.Provider.GuardedDestinations(at)
}

// defect is one thing that is wrong with a provider.
type defect struct {
	spoil func(b *broken)
	// breaks are the rules that it breaks, all of them and no other.
	breaks string
}

// ours reports whether an instance of ours stands under the ID.
func ours(b *broken, id string) bool {
	seen, ok := b.Backend().Look(id)
	return ok && seen.Marked && seen.Owner == fake.DefaultOwner
}

func errorOf(class error, reason string) error {
	return provider.Wrap("fake-entry", provider.Errorf(class, reason, "zone beelink and zone nuc are not well"))
}

// A provider with one defect fails exactly the rules that the defect breaks.
func TestTeeth(t *testing.T) {
	forever := make(chan struct{})
	t.Cleanup(func() { close(forever) })
	all := []map[string]defect{
		brokenCreates(), brokenGets(forever), brokenDeletes(), brokenLists(), brokenChecks(), brokenOthers(), brokenTellings(),
	}
	n := 0
	for _, defects := range all {
		for name, d := range defects {
			n++
			t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
				report, err := conformance.Prove(t.Context(), d.harness)
				if err != nil {
					t.Fatal(err)
				}
				got := slices.Concat(report.With(conformance.Failed), report.With(conformance.Blocked))
				want := strings.Fields(d.breaks)
				for _, rules := range [][]string{got, want} {
					slices.Sort(rules)
				}
				if !slices.Equal(got, want) {
					t.Errorf("a provider that has the defect %q fails\n%s\nwant\n%s", name, strings.Join(got, " "), strings.Join(want, " "))
					for _, r := range report.Results {
						if slices.Contains(got, r.Rule) != slices.Contains(want, r.Rule) {
							t.Logf("%s: %s: %s", r.Rule, r.Outcome, strings.Join(r.Notes, "\n    "))
						}
					}
				}
			})
		}
	}
	const least = 20
	if n < least {
		t.Errorf("there are %d broken providers, want %d at least", n, least)
	}
}

// harness is the fake's, with the defect in every provider that it builds.
func (d defect) harness(ctx context.Context, s conformance.Setup) (*conformance.Harness, error) {
	h, err := fake.NewHarness(ctx, s)
	if err != nil {
		return nil, err
	}
	const few = 10
	h.Many = few
	spoil := func(p provider.Provider) provider.Provider {
		b := &broken{Provider: p.(*fake.Provider)}
		d.spoil(b)
		return b
	}
	build := h.Build
	h.Provider = spoil(h.Provider)
	h.Build = func(v conformance.Variation) (provider.Provider, error) {
		p, err := build(v)
		if err != nil {
			return nil, err
		}
		return spoil(p), nil
	}
	return h, nil
}
