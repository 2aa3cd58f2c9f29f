package tracing_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/tracing"
)

// recorder gives a provider of tracers and what it recorded.
func recorder(t *testing.T) (*sdktrace.TracerProvider, *tracetest.SpanRecorder) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	return sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)), spans
}

func TestStart_childOfARecordedSpanGoesWithIt(t *testing.T) {
	provider, spans := recorder(t)
	ctx, parent := provider.Tracer("test").Start(t.Context(), "parent")
	_, child := tracing.Start(ctx, "child", attribute.String("k", "v"))
	tracing.End(child, "")
	parent.End()

	ended := spans.Ended()
	if len(ended) != 2 {
		t.Fatalf("both spans must be recorded where the parent is, got %d", len(ended))
	}
	got := ended[0]
	if got.Name() != "child" || got.Parent().SpanID() != parent.SpanContext().SpanID() {
		t.Errorf("want a span child under parent, got %s under %s", got.Name(), got.Parent().SpanID())
	}
	if diff := cmp.Diff([]attribute.KeyValue{attribute.String("k", "v")}, got.Attributes(), cmp.AllowUnexported(attribute.Value{})); diff != "" {
		t.Errorf("attributes: -want, +got:\n%s", diff)
	}
}

func TestStart_withoutAParentGoesWhereSetupSaid(t *testing.T) {
	provider, spans := recorder(t)
	before := otel.GetTracerProvider()
	t.Cleanup(func() { otel.SetTracerProvider(before) })
	otel.SetTracerProvider(provider)

	_, span := tracing.Start(t.Context(), "root")
	tracing.End(span, "")
	if ended := spans.Ended(); len(ended) != 1 || ended[0].Name() != "root" {
		t.Errorf("want one span root from the global provider, got %d spans", len(ended))
	}
}

func TestEnd_status(t *testing.T) {
	cases := map[string]struct {
		reason, failure string
		want            sdktrace.Status
	}{
		"success": {"a call that succeeds has no status", "", sdktrace.Status{Code: codes.Unset}},
		"failure": {"a failure is an error with its reason", "Timeout", sdktrace.Status{Code: codes.Error, Description: "Timeout"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			provider, spans := recorder(t)
			_, span := provider.Tracer("test").Start(t.Context(), "span")
			tracing.End(span, tc.failure)
			if diff := cmp.Diff(tc.want, spans.Ended()[0].Status()); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
