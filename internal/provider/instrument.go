package provider

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/tracing"
)

// Span attributes of provider calls. The cloud-init is none of them.
const (
	attrName         = "provider.name"
	attrType         = "provider.type"
	attrZone         = "provider.zone"
	attrMachineType  = "provider.machine_type"
	attrImage        = "provider.image"
	attrInstanceName = "instance.name"
	attrInstanceID   = "instance.id"
	attrState        = "instance.state"
	attrInstances    = "instances"
	attrHosts        = "hosts"
	attrNotReady     = "hosts.not_ready"
	attrErrorClass   = "error.class"
	attrErrorReason  = "error.reason"
)

// instrumented is the decorator that Registry.New puts around every provider: a span provider.<call>
// per call, the parent of the provider's own, and the configured name on every error.
type instrumented struct {
	inner Provider
	name  string // of the entry
	kind  string // the entry's type
	use   use
}

func (p *instrumented) Create(ctx context.Context, req CreateRequest) (string, error) {
	ctx, span := p.start(ctx, "create",
		attribute.String(attrInstanceName, req.Name), attribute.String(attrZone, req.Placement.Zone),
		attribute.String(attrMachineType, req.Placement.MachineType), attribute.String(attrImage, req.Placement.Image))
	id, err := call(p, func() (string, error) { return p.inner.Create(ctx, req) })
	span.SetAttributes(attribute.String(attrInstanceID, id))
	return id, p.end(span, err)
}

func (p *instrumented) Get(ctx context.Context, id string) (Instance, error) {
	ctx, span := p.start(ctx, "get", attribute.String(attrInstanceID, id))
	inst, err := call(p, func() (Instance, error) { return p.inner.Get(ctx, id) })
	if err == nil {
		span.SetAttributes(attribute.String(attrInstanceName, inst.Name), attribute.String(attrZone, inst.Zone),
			attribute.String(attrState, string(inst.State)))
	}
	return inst, p.end(span, err)
}

func (p *instrumented) Delete(ctx context.Context, id string) error {
	ctx, span := p.start(ctx, "delete", attribute.String(attrInstanceID, id))
	_, err := call(p, func() (struct{}, error) { return struct{}{}, p.inner.Delete(ctx, id) })
	return p.end(span, err)
}

func (p *instrumented) ListByTag(ctx context.Context) ([]Instance, error) {
	ctx, span := p.start(ctx, "list")
	list, err := call(p, func() ([]Instance, error) { return p.inner.ListByTag(ctx) })
	span.SetAttributes(attribute.Int(attrInstances, len(list)))
	return list, p.end(span, err)
}

// call makes a call of the provider within, unless its entry changed.
func call[T any](p *instrumented, do func() (T, error)) (T, error) {
	if err := p.use.begin(); err != nil {
		var none T
		return none, err
	}
	defer p.use.end()
	return do()
}

// close ends the connections of the provider within, where it keeps some.
func (p *instrumented) close() error {
	closer, ok := p.inner.(Closer)
	if !ok {
		return nil
	}
	return Wrap(p.name, closer.Close())
}

func (p *instrumented) start(ctx context.Context, call string, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	attrs = append(attrs, attribute.String(attrName, p.name), attribute.String(attrType, p.kind))
	return tracing.Start(ctx, "provider."+call, attrs...)
}

// end ends the span of a call and gives its error the configured name. Class and reason go to the span;
// the text does not, it is for who handles the error.
func (p *instrumented) end(span trace.Span, err error) error {
	if err == nil {
		tracing.End(span, "")
		return nil
	}
	err = Wrap(p.name, err)
	span.SetAttributes(attribute.String(attrErrorClass, ClassOf(err).Error()), attribute.String(attrErrorReason, ReasonOf(err)))
	tracing.End(span, ReasonOf(err))
	return err
}
