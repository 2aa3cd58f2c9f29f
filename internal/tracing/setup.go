package tracing

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// ShutdownLimit is how long a Shutdown sends what is left.
const ShutdownLimit = 5 * time.Second

// Shutdown sends the spans that are left and ends the exporter. It takes at most ShutdownLimit, also
// with a ctx that has ended already, as one has at the end of a program.
type Shutdown func(ctx context.Context) error

// Setup starts the export of spans as the standard OTEL_* variables say:
//
//   - on when OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set, or
//     OTEL_TRACES_EXPORTER is otlp; else off
//   - off when OTEL_SDK_DISABLED is true or OTEL_TRACES_EXPORTER is none
//   - the protocol is http/protobuf, the only one there is here
//   - sampler, batches, limits, headers, certificates, timeout and resource attributes by their own
//     variables
//
// service and version describe the process, where OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES do not.
// log gets what goes wrong with the export later. An error tells which variable is wrong; the Shutdown
// beside it does nothing then. ctx is used for the set-up only.
func Setup(ctx context.Context, service, version string, log logr.Logger) (Shutdown, error) {
	nothing := func(context.Context) error { return nil }
	if on, err := enabled(); err != nil || !on {
		return nothing, err
	}
	process, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(
			attribute.String("service.name", service),
			attribute.String("service.version", version),
		),
		resource.WithFromEnv(), // the last one wins
	)
	if err != nil {
		return nothing, fmt.Errorf("read OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nothing, fmt.Errorf("start the OTLP exporter: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(process))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Error(err, "traces are not exported") }))
	otel.SetTracerProvider(provider)
	return shutdownOf(provider), nil
}

func shutdownOf(provider *sdktrace.TracerProvider) Shutdown {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ShutdownLimit)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			return fmt.Errorf("send the last traces: %w", err)
		}
		return nil
	}
}

// enabled reports whether the environment asks for traces, and refuses what it asks for in vain.
func enabled() (bool, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	endpointVar, endpoint := first("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	switch exporter := os.Getenv("OTEL_TRACES_EXPORTER"); {
	case exporter == "none", exporter == "" && endpoint == "":
		return false, nil
	case exporter != "" && exporter != "otlp":
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER must be otlp or none, is %q", exporter)
	}
	protocolVar, protocol := first("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
	if protocol != "" && protocol != "http/protobuf" {
		return false, fmt.Errorf("%s must be http/protobuf, is %q", protocolVar, protocol)
	}
	// The exporter would take a malformed one for its default, and send to this machine.
	if u, err := url.Parse(endpoint); endpoint != "" && (err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https")) {
		return false, fmt.Errorf("%s must be an http or https URL", endpointVar)
	}
	return true, nil
}

// first gives the first variable that is set to something.
func first(names ...string) (name, value string) {
	for _, name := range names {
		if value := os.Getenv(name); value != "" {
			return name, value
		}
	}
	return "", ""
}
