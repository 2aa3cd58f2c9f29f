//go:build integration

package kvm2

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// TestKVM2 is one instance's life on a real host, in eleven steps whose order matters.
func TestKVM2(t *testing.T) {
	it := newIntegration(t)
	spans := recordSpans(t)
	p, err := provider.Registry{provider.TypeKVM2: New}.New(it.entry, provider.Options{Owner: it.request.Owner, Log: it.log})
	if err != nil {
		t.Fatalf("1 New: %v", err)
	}
	t.Cleanup(func() { closeProvider(t, p) })
	wantID := it.id()
	t.Cleanup(func() { it.cleanUp(t, p, wantID) })

	newDoesNotDial(t, spans)
	checkIsReady(t, p)
	it.createReturnsID(t, p, wantID)
	it.createAgainChangesNothing(t, p, wantID)
	it.getReachesRunning(t, p, wantID)
	it.listContains(t, p, wantID)
	if it.keep {
		t.Logf("KVM2_TEST_KEEP is set: %s stays, and steps 7 to 10 are left out", wantID)
	} else {
		it.deleteLeavesBaseAndMarker(t, p, wantID)
	}
	spansAreChildren(t, spans)
}

func closeProvider(t *testing.T, p provider.Provider) {
	t.Helper()
	c, ok := provider.As[provider.Closer](p)
	if !ok {
		t.Fatal("the provider has no Close")
	}
	if err := c.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// cleanUp removes what a failed run left. After a good one there is nothing.
func (it *integration) cleanUp(t *testing.T, p provider.Provider, id string) {
	t.Helper()
	if it.keep {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	defer cancel()
	if err := p.Delete(ctx, id); err != nil {
		t.Errorf("clean up %s: %v", id, err)
	}
}

// 1
func newDoesNotDial(t *testing.T, spans *tracetest.SpanRecorder) {
	t.Helper()
	if n := len(spans.Started()); n != 0 {
		t.Fatalf("1 New made %d spans: it must not dial", n)
	}
}

// 2
func checkIsReady(t *testing.T, p provider.Provider) {
	t.Helper()
	checker, ok := provider.As[provider.Checker](p)
	if !ok {
		t.Fatal("2 the provider has no Check")
	}
	results := checker.Check(t.Context())
	if len(results) != 1 || !results[0].Ready {
		t.Fatalf("2 Check: %+v, want the one host to be ready", results)
	}
	var keys []string
	for _, d := range results[0].Details {
		keys = append(keys, d.Key)
		if d.Value == "" {
			t.Errorf("2 Check: the detail %s is empty", d.Key)
		}
	}
	want := []string{"user", "hostname", "libvirtVersion", "pool", "poolState", "poolCapacityGiB", "poolAvailableGiB"}
	if !slices.Equal(keys, want) {
		t.Errorf("2 Check: details %v, want %v", keys, want)
	}
}

// 3
func (it *integration) createReturnsID(t *testing.T, p provider.Provider, wantID string) {
	t.Helper()
	started := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), it.timeout)
	defer cancel()
	id, err := p.Create(ctx, it.request)
	if err != nil || id != wantID {
		t.Fatalf("3 Create: %q, %v, want %q", id, err, wantID)
	}
	t.Logf("3 Create took %v, a cold image's transfer included", time.Since(started).Round(time.Millisecond))
}

// 4
func (it *integration) createAgainChangesNothing(t *testing.T, p provider.Provider, wantID string) {
	t.Helper()
	before := it.domains(t)
	id, err := p.Create(t.Context(), it.request)
	if err != nil || id != wantID {
		t.Fatalf("4 second Create: %q, %v, want %q", id, err, wantID)
	}
	if after := it.domains(t); !slices.Equal(before, after) {
		t.Errorf("4 second Create: domains %v, want %v", after, before)
	}
}

// 5
func (it *integration) getReachesRunning(t *testing.T, p provider.Provider, id string) {
	t.Helper()
	started := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), it.timeout)
	defer cancel()
	poll := time.NewTicker(2 * time.Second)
	defer poll.Stop()
	for {
		inst, err := p.Get(ctx, id)
		if err == nil && inst.State == provider.StateRunning {
			it.isWhatWasWritten(t, inst)
			t.Logf("5 Get had the address %v after %v", inst.Addresses, time.Since(started).Round(time.Second))
			return
		}
		if err != nil && !errors.Is(err, provider.ErrTransient) {
			t.Fatalf("5 Get: %v", err)
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			t.Fatalf("5 Get: %+v, %v; want Running with an address within %v", inst, err, it.timeout)
		}
	}
}

func (it *integration) isWhatWasWritten(t *testing.T, inst provider.Instance) {
	t.Helper()
	if len(inst.Addresses) == 0 || strings.Contains(inst.Addresses[0], ":") {
		t.Errorf("5 Get: addresses %v, want an IPv4", inst.Addresses)
	}
	if inst.UID != it.request.UID || inst.Owner != it.request.Owner || inst.Ref != it.request.Ref {
		t.Errorf("5 Get: %+v does not carry the mark of %+v", inst, it.request)
	}
	if age := time.Since(inst.CreatedAt); age < 0 || age > it.timeout+time.Minute {
		t.Errorf("5 Get: createdAt %v is not the time of this run", inst.CreatedAt)
	}
	if !slices.Equal(inst.MACs, []string{macFor(it.request.UID)}) {
		t.Errorf("5 Get: MACs %v, want the one that follows from the UID", inst.MACs)
	}
}

// 6
func (it *integration) listContains(t *testing.T, p provider.Provider, id string) {
	t.Helper()
	list, err := p.ListByTag(t.Context())
	if err != nil {
		t.Fatalf("6 ListByTag: %v", err)
	}
	if !slices.ContainsFunc(list, func(inst provider.Instance) bool { return inst.ID == id && inst.UID == it.request.UID }) {
		t.Errorf("6 ListByTag: %+v lacks %s", list, id)
	}
}

// 7 to 10
func (it *integration) deleteLeavesBaseAndMarker(t *testing.T, p provider.Provider, id string) {
	t.Helper()
	started := time.Now()
	if err := p.Delete(t.Context(), id); err != nil {
		t.Fatalf("7 Delete: %v", err)
	}
	t.Logf("7 Delete took %v", time.Since(started).Round(time.Millisecond))
	if _, err := p.Get(t.Context(), id); !errors.Is(err, provider.ErrNotFound) {
		t.Errorf("8 Get after Delete: %v, want NotFound", err)
	}
	if err := p.Delete(t.Context(), id); err != nil {
		t.Errorf("9 second Delete: %v", err)
	}
	volumes := it.volumes(t)
	for _, name := range volumes {
		if strings.HasPrefix(name, it.request.Name) {
			t.Errorf("10 the pool still holds %s", name)
		}
	}
	key, err := keyOf(it.entry.KVM2.Images["image"])
	if err != nil {
		t.Fatalf("10 %v", err)
	}
	if !slices.Contains(volumes, key.marker()) || !slices.ContainsFunc(volumes, key.isBase) {
		t.Errorf("10 the pool lacks the base or its marker: %v", volumes)
	}
}

// 11
func spansAreChildren(t *testing.T, spans *tracetest.SpanRecorder) {
	t.Helper()
	parents := map[string]bool{}
	for _, s := range spans.Ended() {
		if s.Name() == "provider.create" {
			parents[s.SpanContext().SpanID().String()] = true
		}
	}
	for _, name := range []string{"kvm2.DomainDefineXML", "kvm2.dial"} {
		if !slices.ContainsFunc(spans.Ended(), func(s sdktrace.ReadOnlySpan) bool {
			return s.Name() == name && parents[s.Parent().SpanID().String()]
		}) {
			t.Errorf("11 no span %s is a child of provider.create", name)
		}
	}
}
