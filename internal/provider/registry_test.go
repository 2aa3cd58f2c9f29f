package provider_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/tracing"
)

// plain is a provider without optional interfaces. Each call opens a span of its own and ends in err.
type plain struct{ err error }

func (p plain) backendCall(ctx context.Context) error {
	_, span := tracing.Start(ctx, "plain.Call")
	tracing.End(span, "")
	return p.err
}

func (p plain) Create(ctx context.Context, req provider.CreateRequest) (string, error) {
	if err := p.backendCall(ctx); err != nil {
		return "", err
	}
	return "id-of-" + req.Name, nil
}

func (p plain) Get(ctx context.Context, id string) (provider.Instance, error) {
	return provider.Instance{ID: id, Name: "n", Zone: "beelink", State: provider.StateRunning}, p.backendCall(ctx)
}

func (p plain) Delete(ctx context.Context, _ string) error { return p.backendCall(ctx) }

func (p plain) ListByTag(ctx context.Context) ([]provider.Instance, error) {
	return make([]provider.Instance, 2), p.backendCall(ctx)
}

// full is a provider with every optional interface.
type full struct{ plain }

func (p full) Check(ctx context.Context) []provider.HostCheck {
	_ = p.backendCall(ctx) // only its span matters
	return []provider.HostCheck{{Host: "a", Ready: true}, {Host: "b"}}
}

func (p full) IDFor(req provider.CreateRequest) (string, error) { return "id-of-" + req.Name, p.err }

func (p full) Watch(context.Context) (<-chan string, error) { return nil, p.err }

func (p full) Render(provider.CreateRequest) ([]provider.Document, error) { return nil, p.err }

func (p full) Close() error { return p.err }

func (p full) Images(ctx context.Context, _ string) ([]provider.BaseImage, error) {
	return nil, p.backendCall(ctx)
}

func (p full) RemoveImage(ctx context.Context, _, _ string) error { return p.backendCall(ctx) }

func (p full) ReadConsole(ctx context.Context, _ string, _ int64, _ io.Writer) (int64, error) {
	return 0, p.backendCall(ctx)
}

func (p full) GuestReport(ctx context.Context, _ string) (provider.GuestReport, error) {
	return provider.GuestReport{State: provider.GuestDone}, p.backendCall(ctx)
}

func (p full) Preconfigured() {}

func (p full) Diagnose(ctx context.Context, _ string) ([]provider.Finding, error) {
	return nil, p.backendCall(ctx)
}

func (p full) GuardedDestinations(provider.Placement) ([]string, error) {
	return []string{"192.0.2.1"}, p.err
}

// checkerOnly has one optional interface.
type checkerOnly struct {
	plain
	provider.Checker
}

// build gives p as Registry.New does.
func build(t *testing.T, p provider.Provider) provider.Provider {
	t.Helper()
	registry := provider.Registry{"kvm2": func(provider.Entry, provider.Options) (provider.Provider, error) { return p, nil }}
	built, err := registry.New(provider.Entry{Name: "home", Type: "kvm2"}, provider.Options{Owner: testOwner})
	if err != nil {
		t.Fatalf("a registered type must be built: %v", err)
	}
	return built
}

func TestRegistryNew_passesEntryAndOptions(t *testing.T) {
	want := provider.Entry{Name: "home", Type: "kvm2", KVM2: &provider.KVMConfig{}}
	registry := provider.Registry{"kvm2": func(entry provider.Entry, opts provider.Options) (provider.Provider, error) {
		if diff := cmp.Diff(want, entry); diff != "" || opts.Owner != testOwner {
			t.Errorf("the factory must get the entry and the options, got owner %q: -want, +got:\n%s", opts.Owner, diff)
		}
		return plain{}, nil
	}}
	if _, err := registry.New(want, provider.Options{Owner: testOwner}); err != nil {
		t.Errorf("want no error, got %v", err)
	}
}

func TestRegistryNew_unknownTypeIsPermanent(t *testing.T) {
	registry := provider.Registry{"kvm2": nil, "fake": nil}
	_, err := registry.New(provider.Entry{Name: "home", Type: "aws"}, provider.Options{})
	if !errors.Is(err, provider.ErrPermanent) || provider.ReasonOf(err) != provider.ReasonInvalidConfig {
		t.Fatalf("want ErrPermanent with InvalidConfig, got %v", err)
	}
	if want := `home: there is no provider of type "aws", only fake, kvm2`; err.Error() != want {
		t.Errorf("want %q, got %q", want, err)
	}
}

func TestRegistryNew_factoryErrorHasTheName(t *testing.T) {
	registry := provider.Registry{"kvm2": func(provider.Entry, provider.Options) (provider.Provider, error) {
		return nil, provider.Errorf(provider.ErrPermanent, provider.ReasonInvalidConfig, "no hosts")
	}}
	p, err := registry.New(provider.Entry{Name: "home", Type: "kvm2"}, provider.Options{})
	if p != nil || !errors.Is(err, provider.ErrPermanent) || err.Error() != "home: no hosts" {
		t.Errorf("want no provider and the error under the entry's name, got %v, %v", p, err)
	}
}

// calls are the provider's methods that have a span, with what stands on it beside name and type.
var calls = map[string]struct {
	do       func(context.Context, provider.Provider) error
	ok, fail map[string]string
}{
	"create": {
		func(ctx context.Context, p provider.Provider) error {
			_, err := p.Create(ctx, provider.CreateRequest{
				Name: "n", CloudInit: provider.Secret(sentinel),
				Placement: provider.Placement{Zone: "beelink", MachineType: "small", Image: "debian-13"},
			})
			return err
		},
		map[string]string{"instance.name": "n", "instance.id": "id-of-n", "provider.zone": "beelink", "provider.machine_type": "small", "provider.image": "debian-13"},
		map[string]string{"instance.name": "n", "instance.id": "", "provider.zone": "beelink", "provider.machine_type": "small", "provider.image": "debian-13"},
	},
	"get": {
		func(ctx context.Context, p provider.Provider) error { _, err := p.Get(ctx, "i"); return err },
		map[string]string{"instance.name": "n", "instance.id": "i", "provider.zone": "beelink", "instance.state": "Running"},
		map[string]string{"instance.id": "i"},
	},
	"delete": {
		func(ctx context.Context, p provider.Provider) error { return p.Delete(ctx, "i") },
		map[string]string{"instance.id": "i"}, map[string]string{"instance.id": "i"},
	},
	"list": {
		func(ctx context.Context, p provider.Provider) error { _, err := p.ListByTag(ctx); return err },
		map[string]string{"instances": "2"}, map[string]string{"instances": "2"},
	},
	"check": {
		func(ctx context.Context, p provider.Provider) error {
			checker, ok := provider.As[provider.Checker](p)
			if !ok {
				return errors.New("no Checker")
			}
			checker.Check(ctx)
			return nil
		},
		map[string]string{"hosts": "2", "hosts.not_ready": "1"}, nil,
	},
	"images": {
		func(ctx context.Context, p provider.Provider) error {
			k, _ := provider.As[provider.ImageKeeper](p)
			_, err := k.Images(ctx, "beelink")
			return err
		},
		map[string]string{"provider.zone": "beelink"}, map[string]string{"provider.zone": "beelink"},
	},
	"remove-image": {
		func(ctx context.Context, p provider.Provider) error {
			k, _ := provider.As[provider.ImageKeeper](p)
			return k.RemoveImage(ctx, "beelink", "base")
		},
		map[string]string{"provider.zone": "beelink", "provider.image": "base"},
		map[string]string{"provider.zone": "beelink", "provider.image": "base"},
	},
	"console": {
		func(ctx context.Context, p provider.Provider) error {
			c, _ := provider.As[provider.Consoler](p)
			_, err := c.ReadConsole(ctx, "i", 0, io.Discard)
			return err
		},
		map[string]string{"instance.id": "i"}, map[string]string{"instance.id": "i"},
	},
	"guest-report": {
		func(ctx context.Context, p provider.Provider) error {
			g, _ := provider.As[provider.GuestReporter](p)
			_, err := g.GuestReport(ctx, "i")
			return err
		},
		map[string]string{"instance.id": "i", "instance.state": "Done"}, map[string]string{"instance.id": "i"},
	},
	"diagnose": {
		func(ctx context.Context, p provider.Provider) error {
			d, _ := provider.As[provider.Diagnoser](p)
			_, err := d.Diagnose(ctx, "beelink")
			return err
		},
		map[string]string{"provider.zone": "beelink"}, map[string]string{"provider.zone": "beelink"},
	},
}

// record runs fn under a span that is recorded, and gives the spans below it.
func record(t *testing.T, fn func(context.Context)) []sdktrace.ReadOnlySpan {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	ctx, root := tracers.Tracer("test").Start(t.Context(), "root")
	defer root.End()
	fn(ctx)
	return spans.Ended()
}

func attributes(span sdktrace.ReadOnlySpan) map[string]string {
	out := map[string]string{}
	for _, kv := range span.Attributes() {
		out[string(kv.Key)] = kv.Value.String()
	}
	return out
}

func TestInstrumented_eachCallIsTheParentOfTheProvidersSpans(t *testing.T) {
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			p := build(t, full{})
			spans := record(t, func(ctx context.Context) {
				if err := call.do(ctx, p); err != nil {
					t.Errorf("want no error, got %v", err)
				}
			})
			if len(spans) != 2 {
				t.Fatalf("want the provider's own span and one around it, got %d", len(spans))
			}
			inner, outer := spans[0], spans[1]
			if outer.Name() != "provider."+name || inner.Parent().SpanID() != outer.SpanContext().SpanID() {
				t.Errorf("want plain.Call under provider.%s, got %s under %s", name, inner.Name(), outer.Name())
			}
			want := map[string]string{"provider.name": "home", "provider.type": "kvm2"}
			for k, v := range call.ok {
				want[k] = v
			}
			if diff := cmp.Diff(want, attributes(outer)); diff != "" {
				t.Errorf("attributes, the cloud-init not among them: -want, +got:\n%s", diff)
			}
			if outer.Status().Code != codes.Unset {
				t.Errorf("a call that succeeds must not have the status %v", outer.Status())
			}
		})
	}
}

func TestInstrumented_failedCallTellsClassAndReason(t *testing.T) {
	cause := provider.Errorf(provider.ErrQuotaExceeded, provider.ReasonQuotaExceeded, "pool full, %s: %w", sentinel, io.EOF)
	for name, call := range calls {
		if call.fail == nil {
			continue // Check returns no error
		}
		t.Run(name, func(t *testing.T) {
			p := build(t, full{plain{cause}})
			spans := record(t, func(ctx context.Context) {
				err := call.do(ctx, p)
				if !errors.Is(err, provider.ErrQuotaExceeded) || !errors.Is(err, io.EOF) || !strings.HasPrefix(err.Error(), "home: pool full") {
					t.Errorf("want class and cause under the entry's name, got %v", err)
				}
			})
			outer := spans[1]
			want := map[string]string{"provider.name": "home", "provider.type": "kvm2", "error.class": "quota exceeded", "error.reason": "QuotaExceeded"}
			for k, v := range call.fail {
				want[k] = v
			}
			if diff := cmp.Diff(want, attributes(outer)); diff != "" {
				t.Errorf("class and reason, not the text: -want, +got:\n%s", diff)
			}
			if diff := cmp.Diff(sdktrace.Status{Code: codes.Error, Description: "QuotaExceeded"}, outer.Status()); diff != "" {
				t.Errorf("the status has the reason, not the text: -want, +got:\n%s", diff)
			}
			if len(outer.Events()) != 0 {
				t.Errorf("an error's text must not be an event, got %v", outer.Events())
			}
		})
	}
}

func TestInstrumented_namesAnErrorOnce(t *testing.T) {
	p := build(t, plain{provider.Wrap("home", provider.Errorf(provider.ErrTransient, provider.ReasonTimeout, "get: too late"))})
	if err := p.Delete(t.Context(), "i"); err == nil || err.Error() != "home: get: too late" {
		t.Errorf("a provider that wraps its errors itself must not get a second name, got %v", err)
	}
}

func TestAs_findsExactlyWhatIsThere(t *testing.T) {
	type found struct {
		Checker, Identifier, Watcher, Renderer, Closer, Guarder bool
		ImageKeeper, Consoler, GuestReporter, Diagnoser         bool
		Preconfigured                                           bool
	}
	all := found{true, true, true, true, true, true, true, true, true, true, true}
	look := func(p provider.Provider) found {
		var f found
		_, f.Checker = provider.As[provider.Checker](p)
		_, f.Identifier = provider.As[provider.Identifier](p)
		_, f.Watcher = provider.As[provider.Watcher](p)
		_, f.Renderer = provider.As[provider.Renderer](p)
		_, f.Closer = provider.As[provider.Closer](p)
		_, f.Guarder = provider.As[provider.Guarder](p)
		_, f.ImageKeeper = provider.As[provider.ImageKeeper](p)
		_, f.Consoler = provider.As[provider.Consoler](p)
		_, f.GuestReporter = provider.As[provider.GuestReporter](p)
		_, f.Diagnoser = provider.As[provider.Diagnoser](p)
		_, f.Preconfigured = provider.As[provider.Preconfigured](p)
		return f
	}
	cases := map[string]struct {
		reason string
		p      provider.Provider
		want   found
	}{
		"none":             {"nothing that is not there", build(t, plain{}), found{}},
		"all":              {"everything that is there", build(t, full{}), all},
		"one":              {"one does not bring the others", build(t, checkerOnly{Checker: full{}}), found{Checker: true}},
		"not instrumented": {"a bare provider works too", full{}, all},
		"bare and plain":   {"nothing that is not there", plain{}, found{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, look(tc.p)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
	for name, p := range map[string]provider.Provider{"plain": build(t, plain{}), "full": build(t, full{})} {
		if _, ok := p.(provider.Checker); ok {
			t.Errorf("a type assertion must never find a Checker on an instrumented provider, it does on %s", name)
		}
	}
}

func TestAs_optionalCallsNameTheirErrors(t *testing.T) {
	p := build(t, full{plain{provider.Errorf(provider.ErrPermanent, provider.ReasonUnknownZone, "zone x")}})
	calls := map[string]func() error{
		"IDFor": func() error {
			i, _ := provider.As[provider.Identifier](p)
			_, err := i.IDFor(provider.CreateRequest{})
			return err
		},
		"Watch": func() error {
			w, _ := provider.As[provider.Watcher](p)
			_, err := w.Watch(t.Context())
			return err
		},
		"Render": func() error {
			r, _ := provider.As[provider.Renderer](p)
			_, err := r.Render(provider.CreateRequest{})
			return err
		},
		"Close": func() error {
			c, _ := provider.As[provider.Closer](p)
			return c.Close()
		},
		"GuardedDestinations": func() error {
			g, _ := provider.As[provider.Guarder](p)
			_, err := g.GuardedDestinations(provider.Placement{})
			return err
		},
		"Images": func() error {
			k, _ := provider.As[provider.ImageKeeper](p)
			_, err := k.Images(t.Context(), "x")
			return err
		},
		"RemoveImage": func() error {
			k, _ := provider.As[provider.ImageKeeper](p)
			return k.RemoveImage(t.Context(), "x", "base")
		},
		"ReadConsole": func() error {
			c, _ := provider.As[provider.Consoler](p)
			_, err := c.ReadConsole(t.Context(), "i", 0, io.Discard)
			return err
		},
		"GuestReport": func() error {
			g, _ := provider.As[provider.GuestReporter](p)
			_, err := g.GuestReport(t.Context(), "i")
			return err
		},
		"Diagnose": func() error {
			d, _ := provider.As[provider.Diagnoser](p)
			_, err := d.Diagnose(t.Context(), "x")
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			if err := call(); !errors.Is(err, provider.ErrPermanent) || err.Error() != "home: zone x" {
				t.Errorf("want the error under the entry's name, got %v", err)
			}
		})
	}
}

func TestAs_optionalCallsPassResults(t *testing.T) {
	p := build(t, full{})
	i, _ := provider.As[provider.Identifier](p)
	if id, err := i.IDFor(provider.CreateRequest{Name: "n"}); id != "id-of-n" || err != nil {
		t.Errorf("want id-of-n and no error, got %q, %v", id, err)
	}
	g, _ := provider.As[provider.Guarder](p)
	if guarded, err := g.GuardedDestinations(provider.Placement{}); !cmp.Equal([]string{"192.0.2.1"}, guarded) || err != nil {
		t.Errorf("want the provider's destinations and no error, got %v, %v", guarded, err)
	}
	c, _ := provider.As[provider.Checker](p)
	if checks := c.Check(t.Context()); len(checks) != 2 || checks[0].Host != "a" {
		t.Errorf("want the provider's two results, got %+v", checks)
	}
}
