package conformance

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// observer sees what a provider tells while cases run: errors, log lines, spans, results of checks. The
// rules about all of them are tried at the end, in observedCases.
type observer struct {
	canary *canary

	mu       sync.Mutex
	outcomes []outcome
	lines    []line
	checks   []provider.HostCheck
	left     []string
	spans    *spanLog
	tracer   trace.Tracer
}

// outcome is how one call ended.
type outcome struct {
	method, id string
	err        error
	name       string // of the entry
	during     string // case
}

// line is one log line.
type line struct {
	level    int
	text     string
	fallback bool // it went to the logger of provider.Options
}

func newObserver() *observer {
	o := &observer{canary: newCanary(), spans: &spanLog{}}
	o.tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(o.spans)).Tracer("conformance")
	return o
}

func (o *observer) ended(h *Harness, during string, out outcome) {
	out.name, out.during = h.Name, during
	o.mu.Lock()
	defer o.mu.Unlock()
	o.outcomes = append(o.outcomes, out)
}

func (o *observer) checked(checks []provider.HostCheck) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.checks = append(o.checks, checks...)
}

func (o *observer) leftover(id string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.left = append(o.left, o.canary.hide(fmt.Sprintf("%s: %v", id, err)))
}

func (o *observer) leftovers() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.left)
}

// instances counts the IDs that creates have given.
func (o *observer) instances() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	ids := map[string]bool{}
	for _, out := range o.outcomes {
		if out.id != "" {
			ids[out.id] = true
		}
	}
	return len(ids)
}

// userData is recognised wherever it turns up.
func (o *observer) userData() provider.Secret { return o.canary.userData() }

func (o *observer) withoutSecrets(text string) string { return o.canary.hide(text) }

// everything is more than any provider's level.
const everything = 10

func (o *observer) logger() logr.Logger   { return o.sink(false) }
func (o *observer) fallback() logr.Logger { return o.sink(true) }

var levelOf = regexp.MustCompile(`^"level"=([0-9]+) `)

func (o *observer) sink(fallback bool) logr.Logger {
	return funcr.New(func(prefix, args string) {
		l := line{text: prefix + " " + args, fallback: fallback}
		if m := levelOf.FindStringSubmatch(args); m != nil {
			l.level, _ = strconv.Atoi(m[1]) // digits
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.lines = append(o.lines, l)
	}, funcr.Options{Verbosity: everything})
}

// linesFrom gives the lines from the nth on; linesSoFar is the number of them.
func (o *observer) linesFrom(n int) []line {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.lines[n:])
}

func (o *observer) linesSoFar() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.lines)
}

// span opens the span of one call, that the provider's own are to stand below.
func (o *observer) span(ctx context.Context, method string) (context.Context, func()) {
	ctx, span := o.tracer.Start(ctx, spanPrefix+method)
	return ctx, func() { span.End() }
}

// spanPrefix begins the names of the suite's own spans.
const spanPrefix = "conformance."

// spanLog keeps every span.
type spanLog struct {
	mu      sync.Mutex
	started []sdktrace.ReadWriteSpan
	ended   []sdktrace.ReadOnlySpan
}

// OnStart implements sdktrace.SpanProcessor.
func (l *spanLog) OnStart(_ context.Context, s sdktrace.ReadWriteSpan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started = append(l.started, s)
}

// OnEnd implements sdktrace.SpanProcessor.
func (l *spanLog) OnEnd(s sdktrace.ReadOnlySpan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = append(l.ended, s)
}

// Shutdown implements sdktrace.SpanProcessor.
func (l *spanLog) Shutdown(context.Context) error { return nil }

// ForceFlush implements sdktrace.SpanProcessor.
func (l *spanLog) ForceFlush(context.Context) error { return nil }

// from gives the provider's spans that started from the nth on, and whether each has ended.
func (l *spanLog) from(n int) (spans []sdktrace.ReadOnlySpan, open []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.started[n:] {
		if strings.HasPrefix(s.Name(), spanPrefix) {
			continue
		}
		spans = append(spans, s)
		if s.IsRecording() {
			open = append(open, s.Name())
		}
	}
	return spans, open
}

func (l *spanLog) soFar() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.started)
}

// spanText is everything that an exporter could see of a span.
func spanText(s sdktrace.ReadOnlySpan) string {
	return fmt.Sprint(s.Name(), s.Attributes(), s.Events(), s.Status())
}
