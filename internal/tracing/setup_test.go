package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/goleak"
)

// received is one request that the collector got.
type received struct {
	path, contentType, auth, body string
}

// collector is an OTLP collector on loopback that hands over what it gets.
func collector(t *testing.T) (url string, requests <-chan received) {
	t.Helper()
	out := make(chan received, 16)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			unzipped, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Errorf("the body must be gzip as its header says: %v", err)
				return
			}
			body = unzipped
		}
		data, err := io.ReadAll(body)
		if err != nil {
			t.Errorf("the body must be readable: %v", err)
		}
		out <- received{r.URL.Path, r.Header.Get("Content-Type"), r.Header.Get("Authorization"), string(data)}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(server.Close)
	return server.URL, out
}

// environment clears every OTEL_ variable, sets those of the test, and puts back what is global.
func environment(t *testing.T, vars map[string]string) {
	t.Helper()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
	for name, value := range vars {
		t.Setenv(name, value)
	}
	provider, handler := otel.GetTracerProvider(), otel.GetErrorHandler()
	t.Cleanup(func() {
		otel.SetTracerProvider(provider)
		otel.SetErrorHandler(handler)
	})
}

func TestSetup_sendsSpansToTheCollector(t *testing.T) {
	url, requests := collector(t)
	cases := map[string]struct {
		reason string
		vars   map[string]string
		path   string
		want   []string // parts of the body
	}{
		"endpoint": {
			"one variable is enough", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url},
			"/v1/traces", []string{"provider.create", "egressctl", "1.2.3"},
		},
		"traces endpoint": {
			"it is the whole URL", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": url + "/otlp/traces"},
			"/otlp/traces", []string{"provider.create"},
		},
		"described by the environment": {
			"the user's names win",
			map[string]string{
				"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
				"OTEL_SERVICE_NAME": "mine", "OTEL_RESOURCE_ATTRIBUTES": "site=cellar",
			},
			"/v1/traces", []string{"provider.create", "mine", "cellar"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			environment(t, tc.vars)
			shutdown, err := Setup(t.Context(), "egressctl", "1.2.3", logr.Discard())
			if err != nil {
				t.Fatalf("%s: set-up must work: %v", tc.reason, err)
			}
			_, span := Start(t.Context(), "provider.create")
			End(span, "")
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if err := shutdown(ended); err != nil {
				t.Fatalf("%s: a shutdown sends what is left, also after its ctx has ended: %v", tc.reason, err)
			}
			got := <-requests
			if got.path != tc.path || got.contentType != "application/x-protobuf" {
				t.Errorf("%s: want protobuf at %s, got %s at %s", tc.reason, tc.path, got.contentType, got.path)
			}
			for _, part := range tc.want {
				if !strings.Contains(got.body, part) {
					t.Errorf("%s: want %q in what is sent, got %q", tc.reason, part, got.body)
				}
			}
		})
	}
}

func TestSetup_offUnlessAskedFor(t *testing.T) {
	cases := map[string]struct {
		reason string
		vars   map[string]string
	}{
		"nothing":  {"nobody asked", nil},
		"none":     {"none wins over an endpoint", map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}},
		"disabled": {"the SDK is switched off as a whole", map[string]string{"OTEL_SDK_DISABLED": "TRUE", "OTEL_TRACES_EXPORTER": "otlp"}},
		"metrics":  {"an endpoint for metrics is none for traces", map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:1"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			environment(t, tc.vars)
			before := otel.GetTracerProvider()
			shutdown, err := Setup(t.Context(), "egressctl", "1.2.3", logr.Discard())
			if err != nil {
				t.Fatalf("%s: want no error, got %v", tc.reason, err)
			}
			if otel.GetTracerProvider() != before {
				t.Errorf("%s: nothing may be exported", tc.reason)
			}
			if err := shutdown(t.Context()); err != nil {
				t.Errorf("%s: there is nothing to shut down, got %v", tc.reason, err)
			}
		})
	}
}

func TestSetup_refusesWhatItCannotDo(t *testing.T) {
	cases := map[string]struct {
		reason string
		vars   map[string]string
		want   string
	}{
		"exporter":        {"only otlp is built in", map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, `OTEL_TRACES_EXPORTER must be otlp or none, is "zipkin"`},
		"protocol":        {"gRPC is not built in", map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, `OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf, is "grpc"`},
		"traces protocol": {"the closer variable counts", map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL must be http/protobuf, is "grpc"`},
		"endpoint":        {"traces must not go to this machine by mistake, and the URL may hold a password", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"}, "OTEL_EXPORTER_OTLP_ENDPOINT must be an http or https URL"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			environment(t, tc.vars)
			shutdown, err := Setup(t.Context(), "egressctl", "1.2.3", logr.Discard())
			if err == nil || err.Error() != tc.want {
				t.Fatalf("%s: want %q, got %v", tc.reason, tc.want, err)
			}
			if err := shutdown(t.Context()); err != nil {
				t.Errorf("a caller may defer the shutdown beside an error, got %v", err)
			}
		})
	}
}

func TestSetup_tellsTheLogWhenTheExportFails(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(server.Close)
	environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL})
	var out bytes.Buffer
	shutdown, err := Setup(t.Context(), "egressctl", "1.2.3", lineLogger(&out))
	if err != nil {
		t.Fatal(err)
	}
	_, span := Start(t.Context(), "provider.create")
	End(span, "")
	err = shutdown(t.Context())
	if told := out.String(); err == nil && !strings.Contains(told, "403") {
		t.Errorf("a refusal must be told by the shutdown or in the log, got %v and %q", err, told)
	}
}

// stuck is an exporter whose collector never answers. Like the real one it gives up by itself in the end.
type stuck struct{ gaveUp chan struct{} }

func (s stuck) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	defer close(s.gaveUp)
	<-ctx.Done()
	return ctx.Err()
}

func (stuck) Shutdown(context.Context) error { return nil }

func TestShutdown_hasALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gaveUp := make(chan struct{})
		provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(stuck{gaveUp}))
		_, span := provider.Tracer("test").Start(t.Context(), "span")
		span.End()
		start := time.Now()
		err := shutdownOf(provider)(t.Context())
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a collector that never answers must end in the limit's error, got %v", err)
		}
		if took := time.Since(start); took > ShutdownLimit {
			t.Errorf("a shutdown must take at most %s, took %s", ShutdownLimit, took)
		}
		<-gaveUp // the bubble's time stands still once this function returns
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lineLogger writes each line of a log to out.
func lineLogger(out *bytes.Buffer) logr.Logger {
	return funcr.New(func(prefix, args string) { out.WriteString(prefix + args + "\n") }, funcr.Options{})
}
