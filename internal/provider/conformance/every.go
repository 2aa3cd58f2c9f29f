package conformance

import (
	"context"
	"errors"
	"os"
	"runtime"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

var everyCases = []Case{
	{Name: "a hundred calls leave nothing behind", Rules: []string{"R2.1.6"}, try: hundredCalls},
	{Name: "a host that does not answer holds up no other", Rules: []string{"R2.1.8"}, try: hostsAlone},
	{Name: "a new provider makes no call", Rules: []string{"R2.1.9"}, try: newIsSilent},
}

// hundredCalls makes ten rounds of ten calls, good and bad ones, and counts what is open after each two.
func hundredCalls(e *exam) {
	round := func() {
		req := e.request()
		id := e.create(req)
		e.create(req)
		_, err := e.p.Get(e.ctx, id)
		e.need(err == nil, "get: %v", err)
		_, _ = e.p.Get(e.ctx, "not an ID") // refused
		_, _ = e.p.Get(ended(e.ctx), id)   // given up
		e.list()
		e.p.Check(e.ctx)
		e.need(e.remove(e.p, id) == nil, "delete failed")
		e.need(e.remove(e.p, id) == nil, "second delete failed")
		_, err = e.p.Get(e.ctx, id)
		e.need(errors.Is(err, provider.ErrNotFound), "get after delete: %v", err)
	}
	round() // what is kept is there after this
	before := e.usage()
	const rounds = 10
	for range rounds {
		round()
	}
	after := e.settled(before)
	const grace = 3 // the runtime has goroutines of its own, which come and go
	e.must("R2.1.6", after.goroutines <= before.goroutines+grace, "%d goroutines after a hundred calls, %d before", after.goroutines, before.goroutines)
	e.must("R2.1.6", after.descriptors <= before.descriptors, "%d open descriptors after a hundred calls, %d before", after.descriptors, before.descriptors)
	e.must("R2.1.6", after.connections <= before.connections, "%d open connections after a hundred calls, %d before", after.connections, before.connections)
}

// usage is what a process has open.
type usage struct{ goroutines, descriptors, connections int }

func (e *exam) usage() usage {
	u := usage{goroutines: runtime.NumGoroutine()}
	if open, err := os.ReadDir("/proc/self/fd"); err == nil { // Linux only
		u.descriptors = len(open)
	}
	if e.h.Connections != nil {
		u.connections = e.h.Connections()
	}
	return u
}

// settled waits for a moment until what ends by itself has ended.
func (e *exam) settled(want usage) usage {
	const limit = 3 * time.Second
	end := time.Now().Add(limit)
	for {
		u := e.usage()
		over := u.goroutines > want.goroutines || u.descriptors > want.descriptors || u.connections > want.connections
		if !over || time.Now().After(end) || !pause(e.ctx) {
			return u
		}
	}
}

// hostsAlone uses the second host while calls to the first one get no answer, and while it cannot be reached.
func hostsAlone(e *exam) {
	if len(e.h.Zones) < 2 {
		e.lacks("second host", "R2.1.8")
		return
	}
	id := e.create(e.requestIn(e.h.Zones[0]))
	for _, kind := range []FaultKind{Hanging, Unreachable} {
		ok := e.under([]Fault{{Kind: kind, Host: e.h.Zones[0], First: 1}}, []string{"R2.1.8"}, func() {
			held, release := context.WithCancel(e.ctx)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = e.p.Get(held, id) // it gets no answer
			}()
			e.useHost(e.h.Zones[1], string(kind))
			release()
			<-ended
		})
		if !ok {
			return
		}
	}
}

func (e *exam) useHost(zone, kind string) {
	req := e.requestIn(zone)
	id, err := e.settle(e.p, req)
	e.must("R2.1.8", err == nil, "Create on the host %s while another one has the fault %q: %v", zone, kind, err)
	if err != nil {
		return
	}
	_, err = e.p.Get(e.ctx, id)
	e.must("R2.1.8", err == nil, "Get on the host %s while another one has the fault %q: %v", zone, kind, err)
	err = e.remove(e.p, id)
	e.must("R2.1.8", err == nil, "Delete on the host %s while another one has the fault %q: %v", zone, kind, err)
}

func newIsSilent(e *exam) {
	if e.h.Faults == nil {
		e.lacks("count of backend calls", "R2.1.9")
		return
	}
	before := len(e.h.Faults.Calls())
	if _, ok := e.restarted("R2.1.9"); ok {
		after := len(e.h.Faults.Calls())
		e.must("R2.1.9", after == before, "a provider that was just built has made %d backend calls, want none", after-before)
	}
}
