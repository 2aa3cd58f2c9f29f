package provider

import (
	"context"
	"io"

	"go.opentelemetry.io/otel/attribute"
)

// As finds an optional interface of p: Checker, Identifier, Watcher, Renderer, Closer, Guarder,
// MACAddresser, ImageKeeper, Consoler, GuestReporter, Diagnoser or Preconfigured. It looks through the decorator of
// Registry.New, and what it returns is decorated too. A type assertion on a decorated provider finds
// none, so that one cannot be found that is not there.
func As[T any](p Provider) (T, bool) {
	decorated, ok := p.(*instrumented)
	if !ok {
		t, ok := p.(T)
		return t, ok
	}
	if _, ok := decorated.inner.(T); !ok {
		var none T
		return none, false
	}
	t, ok := any(optional{decorated}).(T)
	return t, ok
}

// optional has every optional interface, each of which it can serve only where the provider within has
// it: As hands out no other.
type optional struct{ *instrumented }

var _ interface {
	Checker
	Identifier
	Watcher
	Renderer
	Closer
	Guarder
	MACAddresser
	ImageKeeper
	Consoler
	GuestReporter
	Diagnoser
	Preconfigured
} = optional{}

// Check has a span like the four methods.
func (o optional) Check(ctx context.Context) []HostCheck {
	ctx, span := o.start(ctx, "check")
	checks, err := call(o.instrumented, func() ([]HostCheck, error) { return o.inner.(Checker).Check(ctx), nil })
	if err != nil {
		checks = []HostCheck{{Host: o.name, Reason: ReasonOf(err), Message: err.Error()}}
	}
	notReady := 0
	for _, c := range checks {
		if !c.Ready {
			notReady++
		}
	}
	span.SetAttributes(attribute.Int(attrHosts, len(checks)), attribute.Int(attrNotReady, notReady))
	span.End()
	return checks
}

// IDFor and the others up to MACFor make no backend call of their own: they have no span.
func (o optional) IDFor(req CreateRequest) (string, error) {
	id, err := o.inner.(Identifier).IDFor(req)
	return id, Wrap(o.name, err)
}

func (o optional) Watch(ctx context.Context) (<-chan string, error) {
	changed, err := o.inner.(Watcher).Watch(ctx)
	return changed, Wrap(o.name, err)
}

func (o optional) Render(req CreateRequest) ([]Document, error) {
	docs, err := o.inner.(Renderer).Render(req)
	return docs, Wrap(o.name, err)
}

func (o optional) Close() error { return o.close() }

func (o optional) GuardedDestinations(p Placement) ([]string, error) {
	guarded, err := o.inner.(Guarder).GuardedDestinations(p)
	return guarded, Wrap(o.name, err)
}

func (o optional) MACFor(req CreateRequest) string { return o.inner.(MACAddresser).MACFor(req) }

func (o optional) Preconfigured() { o.inner.(Preconfigured).Preconfigured() }

func (o optional) Images(ctx context.Context, zone string) ([]BaseImage, error) {
	ctx, span := o.start(ctx, "images", attribute.String(attrZone, zone))
	images, err := call(o.instrumented, func() ([]BaseImage, error) { return o.inner.(ImageKeeper).Images(ctx, zone) })
	return images, o.end(span, err)
}

func (o optional) RemoveImage(ctx context.Context, zone, name string) error {
	ctx, span := o.start(ctx, "remove-image", attribute.String(attrZone, zone), attribute.String(attrImage, name))
	_, err := call(o.instrumented, func() (struct{}, error) {
		return struct{}{}, o.inner.(ImageKeeper).RemoveImage(ctx, zone, name)
	})
	return o.end(span, err)
}

func (o optional) ReadConsole(ctx context.Context, id string, from int64, w io.Writer) (int64, error) {
	ctx, span := o.start(ctx, "console", attribute.String(attrInstanceID, id))
	next, err := call(o.instrumented, func() (int64, error) { return o.inner.(Consoler).ReadConsole(ctx, id, from, w) })
	return next, o.end(span, err)
}

func (o optional) GuestReport(ctx context.Context, id string) (GuestReport, error) {
	ctx, span := o.start(ctx, "guest-report", attribute.String(attrInstanceID, id))
	report, err := call(o.instrumented, func() (GuestReport, error) { return o.inner.(GuestReporter).GuestReport(ctx, id) })
	if err == nil {
		span.SetAttributes(attribute.String(attrState, string(report.State)))
	}
	return report, o.end(span, err)
}

func (o optional) Diagnose(ctx context.Context, zone string) ([]Finding, error) {
	ctx, span := o.start(ctx, "diagnose", attribute.String(attrZone, zone))
	findings, err := call(o.instrumented, func() ([]Finding, error) { return o.inner.(Diagnoser).Diagnose(ctx, zone) })
	return findings, o.end(span, err)
}
