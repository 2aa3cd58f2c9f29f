package fake_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/fake"
)

// wantOne fails unless exactly the instance of id stands there, made once, running, with its disk.
func wantOne(t *testing.T, b *fake.Backend, id string) {
	t.Helper()
	seen, ok := b.Look(id)
	if !ok || !seen.Running || len(b.Instances()) != 1 || b.Made(id) != 1 || !cmp.Equal([]string{id}, b.Disks()) {
		t.Errorf("want one instance, made once, running, with its disk; got %+v made %d times, disks %v", b.Instances(), b.Made(id), b.Disks())
	}
}

func TestCreate_twentyAtOnceGiveOneInstance(t *testing.T) {
	b := fake.NewBackend()
	// Two processes share the backend.
	providers := []*fake.Provider{newFake(t, fake.WithBackend(b)), newFake(t, fake.WithBackend(b))}
	gate := b.Block(fake.Define)
	ids, errs := make([]string, 20), make([]error, 20)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() { ids[i], errs[i] = providers[i%2].Create(t.Context(), request("a", uid1)) })
	}
	for range providers {
		<-gate.Arrived() // one of each process has looked before either has made anything
	}
	gate.Open()
	all.Wait()
	id := fake.ID("beelink", "a")
	succeeded := 0
	for i := range ids {
		switch {
		case errs[i] == nil && ids[i] == id:
			succeeded++
		case errs[i] == nil || !errors.Is(errs[i], provider.ErrTransient) || ids[i] != "":
			t.Errorf("want the one ID, or ErrTransient for a create that lost the race, got %q, %v", ids[i], errs[i])
		}
	}
	if succeeded < 19 {
		t.Errorf("only the loser of the race between two processes may fail, %d of 20 succeeded", succeeded)
	}
	wantOne(t, b, id)
}

func TestCreate_differentNamesAtOnce(t *testing.T) {
	p := newFake(t)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if _, err := p.Create(t.Context(), request(string(rune('a'+i)), uid1)); err != nil {
				t.Errorf("want no error, got %v", err)
			}
		})
	}
	all.Wait()
	if n := len(p.Backend().Instances()); n != 20 {
		t.Errorf("want twenty instances, got %d", n)
	}
}

func TestCreate_resumesAfterEachPartialStep(t *testing.T) {
	fault := map[string]func(*fake.Backend, fake.Call){
		"cut off":     func(b *fake.Backend, c fake.Call) { b.Fail(c, 1, errors.New("cut off")) },
		"answer lost": func(b *fake.Backend, c fake.Call) { b.LoseAnswer(c, 1, errors.New("answer lost")) },
	}
	for kind, script := range fault {
		for _, call := range []fake.Call{fake.Create, fake.LookUp, fake.MakeDisk, fake.Define, fake.Start} {
			t.Run(kind+" at "+string(call), func(t *testing.T) {
				p := newFake(t)
				script(p.Backend(), call)
				id, err := p.Create(t.Context(), request("a", uid1))
				wantErr(t, err, provider.ErrTransient, provider.ReasonBackendError)
				if id != "" {
					t.Errorf("no ID beside an error, got %s", id)
				}
				wantOne(t, p.Backend(), mustCreate(t, p, request("a", uid1)))
			})
		}
	}
}

func TestDelete_resumesAfterEachPartialStep(t *testing.T) {
	for _, call := range []fake.Call{fake.Delete, fake.LookUp, fake.StopInstance, fake.Undefine, fake.RemoveDisk} {
		for kind, script := range map[string]func(*fake.Backend){
			"cut off":     func(b *fake.Backend) { b.Fail(call, 1, errors.New("cut off")) },
			"answer lost": func(b *fake.Backend) { b.LoseAnswer(call, 1, errors.New("answer lost")) },
		} {
			t.Run(kind+" at "+string(call), func(t *testing.T) {
				p := newFake(t)
				id := mustCreate(t, p, request("a", uid1))
				script(p.Backend())
				wantErr(t, p.Delete(t.Context(), id), provider.ErrTransient, provider.ReasonBackendError)
				if err := p.Delete(t.Context(), id); err != nil {
					t.Fatalf("a repeated delete must finish: %v", err)
				}
				if b := p.Backend(); len(b.Instances())+len(b.Disks()) != 0 {
					t.Errorf("nothing may be left, got %v and disks %v", b.Instances(), b.Disks())
				}
			})
		}
	}
}

func TestCreate_refusedForGoodLeavesNothing(t *testing.T) {
	for _, call := range []fake.Call{fake.MakeDisk, fake.Define, fake.Start} {
		t.Run(string(call), func(t *testing.T) {
			p := newFake(t)
			p.Backend().Fail(call, 1, provider.Errorf(provider.ErrPermanent, provider.ReasonImageInvalid, "not an image"))
			_, err := p.Create(t.Context(), request("a", uid1))
			wantErr(t, err, provider.ErrPermanent, provider.ReasonImageInvalid)
			if b := p.Backend(); len(b.Instances())+len(b.Disks()) != 0 {
				t.Errorf("nothing may be left, got %v and disks %v", b.Instances(), b.Disks())
			}
		})
	}
}

func TestCreate_refusedForGoodKeepsWhatStoodThere(t *testing.T) {
	p := newFake(t)
	id := mustCreate(t, p, request("a", uid1))
	p.Backend().Stop(id)
	p.Backend().Fail(fake.Start, 1, provider.Errorf(provider.ErrPermanent, provider.ReasonPermissionDenied, "no"))
	_, err := p.Create(t.Context(), request("a", uid1))
	wantErr(t, err, provider.ErrPermanent, provider.ReasonPermissionDenied)
	if _, ok := p.Backend().Look(id); !ok {
		t.Error("a create that did not make the instance must not remove it")
	}
}

func TestCreate_backendNotFoundIsTransient(t *testing.T) {
	p := newFake(t)
	gate := p.Backend().Block(fake.Start)
	done := make(chan error)
	go func() {
		_, err := p.Create(t.Context(), request("a", uid1))
		done <- err
	}()
	<-gate.Arrived()
	p.Backend().Remove(fake.ID("beelink", "a"))
	gate.Open()
	wantErr(t, <-done, provider.ErrTransient, provider.ReasonBackendError)
}

func TestFail_endsTheNextCalls(t *testing.T) {
	p := newFake(t)
	id := mustCreate(t, p, request("a", uid1))
	p.Backend().Fail(fake.Get, 2, fake.Unreachable())
	for range 2 {
		_, err := p.Get(t.Context(), id)
		wantErr(t, err, provider.ErrTransient, provider.ReasonUnreachable)
	}
	if _, err := p.Get(t.Context(), id); err != nil {
		t.Errorf("the third call must work, got %v", err)
	}
	if n := p.Backend().Calls(fake.Get); n != 3 {
		t.Errorf("want three calls counted, got %d", n)
	}
}

func TestGet_duringDeleteStillReturnsInstance(t *testing.T) {
	p := newFake(t)
	id := mustCreate(t, p, request("a", uid1))
	gate := p.Backend().Block(fake.Undefine)
	done := make(chan error)
	go func() { done <- p.Delete(t.Context(), id) }()
	<-gate.Arrived()
	if _, err := p.Get(t.Context(), id); err != nil {
		t.Errorf("want the instance while its delete runs, got %v", err)
	}
	gate.Open()
	if err := <-done; err != nil {
		t.Errorf("want no error, got %v", err)
	}
}

func TestCreateAndDelete_ofOneNameTakeTurns(t *testing.T) {
	p := newFake(t)
	id := fake.ID("beelink", "a")
	gate := p.Backend().Block(fake.Define)
	created, deleted := make(chan error), make(chan error)
	go func() { _, err := p.Create(t.Context(), request("a", uid1)); created <- err }()
	<-gate.Arrived()
	go func() { deleted <- p.Delete(t.Context(), id) }()
	gate.Open()
	if err := errors.Join(<-created, <-deleted); err != nil {
		t.Fatalf("both must work: %v", err)
	}
	b := p.Backend()
	if n := len(b.Instances()); n != len(b.Disks()) {
		t.Errorf("they must end as if one had run after the other, got %v and disks %v", b.Instances(), b.Disks())
	}
}

func TestProvider_cancelledContextReturnsPromptly(t *testing.T) {
	calls := map[string]struct {
		blocked fake.Call
		do      func(context.Context, *fake.Provider, string) error
	}{
		"create": {fake.MakeDisk, func(ctx context.Context, p *fake.Provider, _ string) error {
			_, err := p.Create(ctx, request("b", uid2))
			return err
		}},
		"create turn": {fake.Define, func(ctx context.Context, p *fake.Provider, _ string) error {
			_, err := p.Create(ctx, request("c", uid2))
			return err
		}},
		"get":    {fake.LookUp, func(ctx context.Context, p *fake.Provider, id string) error { _, err := p.Get(ctx, id); return err }},
		"delete": {fake.Undefine, func(ctx context.Context, p *fake.Provider, id string) error { return p.Delete(ctx, id) }},
		"list":   {fake.ListZone, func(ctx context.Context, p *fake.Provider, _ string) error { _, err := p.ListByTag(ctx); return err }},
	}
	for name, tc := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newFake(t)
				id := mustCreate(t, p, request("a", uid1))
				gate := p.Backend().Block(tc.blocked)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if name == "create turn" {
					other, stop := context.WithCancel(t.Context())
					defer stop()
					go func() { _, _ = p.Create(other, request("c", uid2)) }() // holds the turn until the test ends
					<-gate.Arrived()
				}
				start := time.Now()
				err := tc.do(ctx, p, id)
				wantErr(t, err, provider.ErrTransient, provider.ReasonTimeout)
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the context's own error must be found, got %v", err)
				}
				if took := time.Since(start); took != time.Minute {
					t.Errorf("want the end of the context to end the call, took %s", took)
				}
			})
		})
	}
}

func TestProvider_endedContextChangesNothing(t *testing.T) {
	p := newFake(t)
	id := mustCreate(t, p, request("a", uid1))
	before := p.Backend().Instances()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := p.Create(ctx, request("b", uid2))
	wantErr(t, err, provider.ErrTransient, provider.ReasonCanceled)
	wantErr(t, p.Delete(ctx, id), provider.ErrTransient, provider.ReasonCanceled)
	if diff := cmp.Diff(before, p.Backend().Instances()); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestCheck_reasonsTable(t *testing.T) {
	cases := map[string]struct {
		reason string
		err    error
		want   string
	}{
		"ready":        {"it answers", nil, provider.ReasonReady},
		"unreachable":  {"the host's own error", fake.Unreachable(), provider.ReasonUnreachable},
		"host key":     {"the host's own error", provider.Errorf(provider.ErrPermanent, provider.ReasonHostKeyMismatch, "another key"), provider.ReasonHostKeyMismatch},
		"some problem": {"an error without a class", errors.New("boom"), provider.ReasonBackendError},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := newFake(t)
			p.Backend().Limit("attic", 2)
			p.Backend().FailHost("beelink", tc.err)
			checks := p.Check(t.Context())
			if len(checks) != 2 || checks[0].Host != "beelink" || checks[1].Host != "attic" {
				t.Fatalf("want one result per host in the entry's order, got %+v", checks)
			}
			if checks[0].Reason != tc.want || checks[0].Ready != (tc.err == nil) || checks[0].Message == "" {
				t.Errorf("%s: want %s, got %+v", tc.reason, tc.want, checks[0])
			}
			if !checks[1].Ready || !cmp.Equal([]provider.Detail{{Key: "room", Value: "2"}}, checks[1].Details) {
				t.Errorf("another host's trouble is no matter, got %+v", checks[1])
			}
		})
	}
}

func TestCheck_expiredContextReturnsPromptly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFake(t)
		p.Backend().Block(fake.Check)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		for _, check := range p.Check(ctx) {
			if check.Ready || check.Reason != provider.ReasonTimeout {
				t.Errorf("a host that was not asked is not ready, got %+v", check)
			}
		}
		if took := time.Since(start); took != time.Minute {
			t.Errorf("hosts are asked at the same time, until the context ends: took %s", took)
		}
	})
}

func TestWatch_tellsChangesAndCloses(t *testing.T) {
	p := newFake(t)
	ctx, cancel := context.WithCancel(t.Context())
	changes, err := p.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	id := mustCreate(t, p, request("a", uid1))
	if got := <-changes; got != id {
		t.Errorf("want %s, got %s", id, got)
	}
	for range 200 { // more than wait for a reader: nobody is held up
		p.Backend().SetAddresses(id, "198.18.1.1")
	}
	cancel()
	for got := range changes {
		if got != id {
			t.Errorf("want only %s, got %s", id, got)
		}
	}
	if _, err := p.Watch(ctx); !errors.Is(err, provider.ErrTransient) {
		t.Errorf("a watch under an ended context is refused, got %v", err)
	}
}
