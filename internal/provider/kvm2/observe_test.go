package kvm2

import (
	"context"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/tracing"
)

// recordSpans collects the spans of one test.
func recordSpans(t *testing.T) *tracetest.SpanRecorder {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)))
	t.Cleanup(func() { otel.SetTracerProvider(before) })
	return recorder
}

// logLines collects what is logged up to a verbosity.
type logLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *logLines) logger(verbosity int) logr.Logger {
	return funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, args)
	}, funcr.Options{Verbosity: verbosity})
}

// echoConn answers each call with err, and reads uploads to their end.
type echoConn struct {
	backend
	stubEnd
	err error
}

func (c echoConn) StorageVolUpload(_ context.Context, _ volume, r io.Reader, _ uint64) error {
	_, _ = io.Copy(io.Discard, r)
	return c.err
}

func (c echoConn) DomainCreate(context.Context, domain) error { return c.err }

func (c echoConn) DomainDefineXML(context.Context, string) (domain, error) {
	return domain{Name: "proxy-1"}, c.err
}

// TestObserve_everySeamMethodInstrumented calls each method that the seam has, over a connection that
// is dead, so that a method added later is found too.
func TestObserve_everySeamMethodInstrumented(t *testing.T) {
	seam := reflect.TypeFor[backend]()
	dead := openTestConn(t, newRPCPeer(), defaultLimits())
	_ = dead.Close()
	for i := range seam.NumMethod() {
		name := seam.Method(i).Name
		t.Run(name, func(t *testing.T) {
			spans, logged := recordSpans(t), &logLines{}
			o := observe(dead, logged.logger(1), "beelink")
			results := callWithZeros(t, reflect.ValueOf(o).MethodByName(name))
			if err, _ := results[len(results)-1].Interface().(error); err == nil {
				t.Error("a call over a dead connection succeeded: it does not reach the connection")
			}
			ended := spans.Ended()
			if len(ended) != 1 || ended[0].Name() != "kvm2."+name {
				t.Errorf("%d spans ended, want one kvm2.%s", len(ended), name)
			}
			if len(logged.lines) != 1 || !strings.Contains(logged.lines[0], "kvm2."+name) {
				t.Errorf("logged %q, want one line that names the call", logged.lines)
			}
		})
	}
}

func TestObserve_childSpansUnderParent(t *testing.T) {
	spans := recordSpans(t)
	h := startHost(t, &sshServer{forward: forwardTo(newRPCPeer().on(procDomainDefineXML, func(r *rpcRequest) { r.reply(xdrDomain(domain{})) }))})
	ctx, parent := tracing.Start(t.Context(), "provider.create")
	l, err := h.dial(t, ctx)
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.DomainDefineXML(ctx, "<domain/>"); err != nil {
		t.Fatal(err)
	}
	parent.End()
	var children []string
	for _, s := range spans.Ended() {
		if s.Parent().SpanID() == parent.SpanContext().SpanID() {
			children = append(children, s.Name())
		}
	}
	if want := []string{"kvm2.dial", "kvm2.DomainDefineXML"}; !slices.Equal(children, want) {
		t.Errorf("children of provider.create are %v, want %v", children, want)
	}
}

func TestObserve_failedCallsSpanHasTheReason(t *testing.T) {
	spans := recordSpans(t)
	o := observe(echoConn{stubEnd: newStubEnd(), err: provider.Errorf(provider.ErrTransient, provider.ReasonTimeout, "slow")}, logr.Discard(), "beelink")
	_ = o.DomainCreate(t.Context(), domain{})
	s := spans.Ended()[0]
	if s.Status().Code != codes.Error || s.Status().Description != provider.ReasonTimeout {
		t.Errorf("status is %v, want an error with the reason", s.Status())
	}
}

func TestObserve_logsOneLinePerCallAtV1(t *testing.T) {
	tests := map[string]struct {
		err     error
		outcome string
	}{
		"Success":  {nil, `"outcome"="ok"`},
		"Typed":    {provider.Errorf(provider.ErrTransient, provider.ReasonTimeout, "slow"), `"outcome"="Timeout"`},
		"Canceled": {context.Canceled, `"outcome"="Canceled"`},
		"Other":    {errors.New("broken"), `"outcome"="BackendError"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			logged := &logLines{}
			o := observe(echoConn{stubEnd: newStubEnd(), err: tc.err}, logr.Discard(), "beelink")
			_ = o.DomainCreate(logr.NewContext(t.Context(), logged.logger(1)), domain{Name: "proxy-1"})
			if len(logged.lines) != 1 {
				t.Fatalf("logged %q, want one line", logged.lines)
			}
			for _, part := range []string{"kvm2.DomainCreate", `"host"="beelink"`, `"duration"=`, tc.outcome} {
				if !strings.Contains(logged.lines[0], part) {
					t.Errorf("line %s lacks %s", logged.lines[0], part)
				}
			}
		})
	}
	t.Run("V0Silent", func(t *testing.T) {
		logged := &logLines{}
		_ = observe(echoConn{stubEnd: newStubEnd()}, logged.logger(0), "beelink").DomainCreate(t.Context(), domain{})
		if len(logged.lines) != 0 {
			t.Errorf("logged %q at V(0), want nothing", logged.lines)
		}
	})
	t.Run("OwnLoggerWithoutOneInCtx", func(t *testing.T) {
		logged := &logLines{}
		_ = observe(echoConn{stubEnd: newStubEnd()}, logged.logger(1), "beelink").DomainCreate(t.Context(), domain{})
		if len(logged.lines) != 1 {
			t.Errorf("logged %q, want one line from the connection's own logger", logged.lines)
		}
	})
}

func TestObserve_detailOnlyAtV2(t *testing.T) {
	for verbosity, want := range map[int]int{1: 0, 2: 1} {
		logged := &logLines{}
		o := observe(echoConn{stubEnd: newStubEnd()}, logged.logger(verbosity), "beelink")
		_ = o.StorageVolUpload(t.Context(), volume{Pool: "default", Name: "seed-1"}, strings.NewReader("body"), 4)
		named := 0
		for _, line := range logged.lines {
			if strings.Contains(line, "seed-1") && strings.Contains(line, `"bytes"=4`) {
				named++
			}
		}
		if named != want {
			t.Errorf("at V(%d) %d lines name the object and its size, want %d: %q", verbosity, named, want, logged.lines)
		}
	}
}

func TestObserve_uploadBodyNeverLogged(t *testing.T) {
	const secret = "s3cr3t-cloud-init"
	spans, logged := recordSpans(t), &logLines{}
	o := observe(echoConn{stubEnd: newStubEnd(), err: errors.New("failed")}, logged.logger(10), "beelink")
	if err := o.StorageVolUpload(t.Context(), volume{Name: "seed-1"}, strings.NewReader(secret), uint64(len(secret))); err == nil {
		t.Fatal("the upload's error was lost")
	}
	if _, err := o.DomainDefineXML(t.Context(), "<domain>"+secret+"</domain>"); err == nil {
		t.Fatal("the definition's error was lost")
	}
	if len(logged.lines) != 4 {
		t.Fatalf("logged %q, want both calls at V(1) and V(2)", logged.lines)
	}
	if strings.Contains(strings.Join(logged.lines, "\n"), secret) {
		t.Errorf("the log has the body: %q", logged.lines)
	}
	for _, s := range spans.Ended() {
		for _, a := range s.Attributes() {
			if strings.Contains(a.Value.String(), secret) {
				t.Errorf("span %s has the body in %s", s.Name(), a.Key)
			}
		}
	}
}
