// Package tracing is the project's OpenTelemetry.
package tracing

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

const scope = "gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator"

// Start opens a span as a child of the one in ctx. The caller ends it.
func Start(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	return otel.Tracer(scope).Start(ctx, name, trace.WithAttributes(attrs...))
}
