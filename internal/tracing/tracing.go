// Package tracing is the project's OpenTelemetry: Setup from the environment, Start and End of spans.
package tracing

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

const scope = "gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator"

// Start opens a span as a child of the one in ctx. A span that is being recorded has its children
// recorded where it is itself, all others go where Setup said. The caller ends the span, with End or by
// itself.
func Start(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	provider := otel.GetTracerProvider()
	if parent := trace.SpanFromContext(ctx); parent.IsRecording() {
		provider = parent.TracerProvider()
	}
	return provider.Tracer(scope).Start(ctx, name, trace.WithAttributes(attrs...))
}

// End ends a span. A failure gives it the status Error: a reason in a word or two, "" for none. It is
// never an error's text, which may repeat what a backend sent.
func End(span trace.Span, failure string) {
	if failure != "" {
		span.SetStatus(codes.Error, failure)
	}
	span.End()
}
