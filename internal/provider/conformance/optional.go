package conformance

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

var optionalCases = []Case{
	{Name: "the ID before create", Safe: true, Rules: []string{"R2.7.1", "R2.7.2", "R2.7.3"}, try: idBefore},
	{Name: "watch", Rules: []string{"R2.8.1", "R2.8.2", "R2.8.3"}, try: watching},
	{Name: "render", Safe: true, Rules: []string{"R2.9.1", "R2.9.2", "R2.9.3", "R2.9.4"}, try: rendering},
	{Name: "close", Rules: []string{"R2.10.1", "R2.10.2", "R2.10.3"}, try: closing},
	{Name: "guarded destinations", Safe: true, Rules: []string{"R2.11.1", "R2.11.2", "R2.11.3", "R2.11.4"}, try: guarding},
}

func idBefore(e *exam) {
	identifier, _ := provider.As[provider.Identifier](e.h.Provider)
	req := e.request()
	var id string
	e.silent("R2.7.2", "IDFor", func() {
		var err error
		id, err = identifier.IDFor(req)
		e.must("R2.7.1", err == nil && id != "", "IDFor gives %q, %v", id, err)
	})
	got := e.create(req)
	e.must("R2.7.1", got == id, "IDFor gives %q, Create %q", id, got)
	e.refusesAsCreate("R2.7.3", "IDFor", func(req provider.CreateRequest) error {
		_, err := identifier.IDFor(req)
		return err
	})
}

// refusesAsCreate tries that a call which asks no backend refuses what Create refuses without asking it.
func (e *exam) refusesAsCreate(rule, name string, call func(provider.CreateRequest) error) {
	for what, change := range map[string]func(*provider.CreateRequest){
		"no name":                 func(r *provider.CreateRequest) { r.Name = "" },
		"another owner":           func(r *provider.CreateRequest) { r.Owner = otherOwner },
		"an unknown zone":         func(r *provider.CreateRequest) { r.Placement.Zone = "no-such-zone" },
		"an unknown machine type": func(r *provider.CreateRequest) { r.Placement.MachineType = "no-such-machine-type" },
		"an unknown image":        func(r *provider.CreateRequest) { r.Placement.Image = "no-such-image" },
	} {
		req := e.request()
		change(&req)
		err := call(req)
		_, want := e.p.Create(e.ctx, req)
		same := errors.Is(err, provider.ErrPermanent) && provider.ReasonOf(err) == provider.ReasonOf(want)
		e.must(rule, same, "%s with %s gives %v, Create %v", name, what, err, want)
	}
}

func watching(e *exam) {
	watcher, _ := provider.As[provider.Watcher](e.h.Provider)
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	read, err := watcher.Watch(ctx)
	e.need(err == nil, "watch: %v", err)
	unread, stop := context.WithCancel(e.ctx)
	defer stop()
	_, err = watcher.Watch(unread)
	e.need(err == nil, "second watch: %v", err)
	sent := make(chan []string, 1)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		var ids []string
		for id := range read {
			ids = append(ids, id)
		}
		sent <- ids
	}()
	// More changes than a channel would hold.
	for range 100 {
		req := e.request()
		id, err := e.settle(e.p, req)
		e.must("R2.8.3", err == nil, "Create while nobody reads a Watch: %v", err)
		if err != nil {
			return
		}
		err = e.remove(e.p, id)
		e.must("R2.8.3", err == nil, "Delete while nobody reads a Watch: %v", err)
	}
	cancel()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
	}
	select {
	case <-closed:
		e.must("R2.8.1", true, "")
	default:
		e.must("R2.8.1", false, "Watch has not closed its channel a second after the end of its context")
		return
	}
	for _, id := range <-sent {
		_, err := e.p.Get(e.ctx, id)
		e.must("R2.8.2", provider.ReasonOf(err) != provider.ReasonInvalidID, "Watch sent %q, which Get does not accept: %v", id, err)
	}
}

func rendering(e *exam) {
	renderer, _ := provider.As[provider.Renderer](e.h.Provider)
	req := e.request()
	var docs []provider.Document
	e.silent("R2.9.1", "Render", func() {
		var err error
		docs, err = renderer.Render(req)
		e.need(err == nil, "render: %v", err)
	})
	names := map[string]bool{}
	for _, doc := range docs {
		e.must("R2.9.2", !names[doc.Name], "Render gives two documents of the name %s", doc.Name)
		names[doc.Name] = true
	}
	again, err := renderer.Render(req)
	e.must("R2.9.3", err == nil && reflect.DeepEqual(docs, again), "Render gives other documents the second time, %v", err)
	e.refusesAsCreate("R2.9.4", "Render", func(req provider.CreateRequest) error {
		_, err := renderer.Render(req)
		return err
	})
}

func closing(e *exam) {
	goroutines := runtime.NumGoroutine()
	connections := e.usage().connections
	p, ok := e.restarted(e.def.Rules...)
	if !ok {
		return
	}
	closer, has := provider.As[provider.Closer](p.Provider)
	e.need(has, "the restarted provider has no Closer")
	id, err := e.settle(p, e.request())
	e.need(err == nil, "create: %v", err)
	held, release := context.WithCancel(e.ctx)
	defer release()
	arrived, ended := make(chan struct{}, 1), make(chan struct{})
	err = nil
	var took time.Duration
	closeIt := func() {
		begin := time.Now()
		err = closer.Close()
		took = time.Since(begin)
	}
	ok = e.under([]Fault{{Kind: Hanging, First: 1, Do: func(Call) {
		select {
		case arrived <- struct{}{}:
		default:
		}
	}}}, []string{"R2.10.2"}, func() {
		go func() {
			defer close(ended)
			_, _ = p.Get(held, id) // it gets no answer
		}()
		<-arrived
		closeIt()
	})
	if !ok {
		close(ended)
		closeIt()
	}
	const grace = within / 2 // of a busy machine
	e.must("R2.10.2", took <= within+grace, "Close took %v, want one second at most", took.Round(time.Millisecond))
	e.must("R2.10.3", err == nil, "Close: %v", err)
	release()
	<-ended
	e.must("R2.10.3", closer.Close() == nil, "Close again is an error")
	after := e.settled(usage{goroutines: goroutines, descriptors: 1 << 30, connections: connections})
	const others = 3 // the runtime's own
	e.must("R2.10.1", after.goroutines <= goroutines+others, "%d goroutines after Close, %d before the provider was built", after.goroutines, goroutines)
	if e.h.Connections == nil {
		e.lacks("count of connections", "R2.10.1")
		return
	}
	e.must("R2.10.1", after.connections <= connections, "%d connections after Close, %d before the provider was built", after.connections, connections)
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?$`)

func guarding(e *exam) {
	guarder, _ := provider.As[provider.Guarder](e.h.Provider)
	req := e.request()
	for _, zone := range e.h.Zones {
		req.Placement.Zone = zone
		var guarded []string
		e.silent("R2.11.1", "GuardedDestinations", func() {
			var err error
			guarded, err = guarder.GuardedDestinations(req.Placement)
			e.need(err == nil, "guarded destinations of %s: %v", zone, err)
		})
		for _, g := range guarded {
			_, notCIDR := netip.ParsePrefix(g)
			_, notIP := netip.ParseAddr(g)
			e.must("R2.11.2", notCIDR == nil || notIP == nil || hostName.MatchString(g), "GuardedDestinations gives %q", g)
		}
		if e.h.Hypervisor == nil {
			e.lacks("address of the hypervisor", "R2.11.3")
			continue
		}
		e.must("R2.11.3", slices.Contains(guarded, e.h.Hypervisor(zone)), "GuardedDestinations gives %s, want %s among them", strings.Join(guarded, ", "), e.h.Hypervisor(zone))
	}
	req.Placement.Zone = "no-such-zone"
	_, err := guarder.GuardedDestinations(req.Placement)
	e.mustBe("R2.11.4", err, provider.ErrPermanent, "", "GuardedDestinations of an unknown zone")
}
