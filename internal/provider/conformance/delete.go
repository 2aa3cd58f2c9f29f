package conformance

import (
	"errors"
	"slices"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

var deleteCases = []Case{
	{Name: "delete leaves nothing", Safe: true, Rules: []string{"R2.4.1"}, try: deleteAll},
	{Name: "delete twice", Safe: true, Rules: []string{"R2.4.2"}, try: deleteAgain},
	{Name: "delete in every state", Rules: []string{"R2.4.3"}, try: deleteStates},
	{Name: "delete of an instance that is gone", Rules: []string{"R2.4.4"}, try: deleteGone},
	{Name: "delete past a missing resource", Rules: []string{"R2.4.5"}, try: deletePast},
	{Name: "delete stops before it takes the disk", Rules: []string{"R2.4.9"}, try: deleteStopsFirst},
	{Name: "delete leaves what is shared", Rules: []string{"R2.4.10"}, try: deleteShared},
	{Name: "delete beside longer names", Rules: []string{"R2.4.11"}, try: deleteNeighbours},
	{Name: "delete of a malformed ID", Safe: true, Rules: []string{"R2.4.13"}, try: deleteMalformed},
	{Name: "delete on a host that is not configured", Rules: []string{"R2.4.14"}, try: deleteElsewhere},
	{Name: "create and delete at once", Rules: []string{"R2.4.16"}, try: deleteDuringCreate},
	{Name: "delete while the backend works", Rules: []string{"R2.4.18"}, try: deleteResumed},
}

func deleteAll(e *exam) {
	req := e.request()
	id := e.create(req)
	err := e.remove(e.p, id)
	e.must("R2.4.1", err == nil, "Delete: %v", err)
	e.mustBeNone("R2.4.1", req.Name, "after Delete")
}

func deleteAgain(e *exam) {
	id := e.create(e.request())
	err := e.remove(e.p, id)
	e.need(err == nil, "delete: %v", err)
	for range 3 {
		err := e.p.Delete(e.ctx, id)
		e.must("R2.4.2", err == nil, "Delete of what is gone: %v", err)
	}
}

func deleteStates(e *exam) {
	clean := func(state string, id, name string) {
		err := e.remove(e.p, id)
		e.must("R2.4.3", err == nil, "Delete of an instance that is %s: %v", state, err)
		e.mustBeNone("R2.4.3", name, "after Delete of an instance that was "+state)
	}
	for _, power := range []Power{On, Off, Paused, Crashed} {
		req := e.request()
		id := e.create(req)
		if power != On {
			if e.h.SetPower == nil {
				e.lacks("way to stop an instance", "R2.4.3")
				continue
			}
			if !e.done(e.h.SetPower(e.ctx, id, power), "instance that is "+string(power), "R2.4.3") {
				continue
			}
		}
		clean(string(power), id, req.Name)
	}
	req := e.request()
	if id, ok := e.halfMade(req, "R2.4.3"); ok {
		clean("half made", id, req.Name)
	}
}

func deleteGone(e *exam) {
	req := e.request()
	id := e.create(req)
	if e.h.Remove == nil {
		e.lacks("way to remove an instance", "R2.4.4")
		return
	}
	if !e.done(e.h.Remove(e.ctx, id), "way to remove an instance", "R2.4.4") {
		return
	}
	err := e.remove(e.p, id)
	e.must("R2.4.4", err == nil, "Delete of an instance that is gone: %v", err)
	e.mustBeNone("R2.4.4", req.Name, "after Delete of an instance that was gone")
}

func deletePast(e *exam) {
	req := e.request()
	id := e.create(req)
	if e.h.RemoveResource == nil {
		e.lacks("way to remove a secondary resource", "R2.4.5")
		return
	}
	if !e.done(e.h.RemoveResource(e.ctx, id), "way to remove a secondary resource", "R2.4.5") {
		return
	}
	err := e.remove(e.p, id)
	e.must("R2.4.5", err == nil, "Delete of an instance without one of its resources: %v", err)
	e.mustBeNone("R2.4.5", req.Name, "after Delete of an instance without one of its resources")
}

// deleteStopsFirst counts the resources before each backend call of a Delete, as long as the instance runs.
func deleteStopsFirst(e *exam) {
	req := e.request()
	id := e.create(req)
	found, ok := e.look("R2.4.9")
	if !ok {
		return
	}
	whole := len(found.of(req.Name).kind(Resource))
	e.under([]Fault{{Kind: Nothing, First: 1, Do: func(c Call) {
		found, err := e.h.Look(e.ctx)
		mine := things(found).of(req.Name)
		runs := len(mine.instances()) == 1 && mine.instances()[0].Running
		left := len(mine.kind(Resource))
		e.must("R2.4.9", err == nil && (!runs || left == whole), "before %s the instance runs with %d of its %d resources, %v", c.Name, left, whole, err)
	}}}, []string{"R2.4.9"}, func() {
		err := e.remove(e.p, id)
		e.need(err == nil, "delete: %v", err)
	})
}

func deleteShared(e *exam) {
	first, second := e.request(), e.request()
	second.Placement = first.Placement
	a := e.create(first)
	e.create(second)
	before, ok := e.look("R2.4.10")
	if !ok {
		return
	}
	if len(before.kind(Shared)) == 0 {
		e.lacks("shared resource", "R2.4.10")
		return
	}
	err := e.remove(e.p, a)
	e.need(err == nil, "delete: %v", err)
	after, _ := e.look("R2.4.10")
	e.must("R2.4.10", before.kind(Shared).detail() == after.kind(Shared).detail(), "Delete changed what is shared from %s to %s", before.kind(Shared), after.kind(Shared))
}

func deleteNeighbours(e *exam) {
	first := e.request()
	first.Name = first.Name[:min(len(first.Name), longestName-8)]
	a := e.create(first)
	var names []string
	for _, suffix := range []string{"0", "-0", "-disk", "-seed", "-a-seed"} {
		next := e.request()
		next.Placement, next.Name = first.Placement, first.Name+suffix
		e.create(next)
		names = append(names, next.Name)
	}
	before, ok := e.look("R2.4.11")
	if !ok {
		return
	}
	err := e.remove(e.p, a)
	e.need(err == nil, "delete: %v", err)
	after, _ := e.look("R2.4.11")
	for _, name := range names {
		e.must("R2.4.11", before.of(name).detail() == after.of(name).detail(), "Delete of %s changed %s from %s to %s", first.Name, name, before.of(name), after.of(name))
	}
}

func deleteMalformed(e *exam) {
	for _, id := range malformedIDs {
		e.silent("R2.4.13", "Delete of a malformed ID", func() {
			err := e.p.Delete(e.ctx, id)
			e.mustBe("R2.4.13", err, provider.ErrPermanent, provider.ReasonInvalidID, "Delete of a malformed ID")
		})
	}
}

func deleteElsewhere(e *exam) {
	id, p, ok := e.elsewhere("R2.4.14")
	if !ok {
		return
	}
	e.silent("R2.4.14", "Delete on a host that is not configured", func() {
		err := p.Delete(e.ctx, id)
		e.must("R2.4.14", err == nil, "Delete on a host that is not configured: %v", err)
	})
}

// deleteDuringCreate starts a Delete before each backend call of a Create.
func deleteDuringCreate(e *exam) {
	want, ok := e.measure("R2.4.16")
	if !ok {
		return
	}
	known, knows := provider.As[provider.Identifier](e.h.Provider)
	e.everyCall(func(n int) []Fault { return []Fault{{Kind: Nothing, First: n, Count: 1}} }, []string{"R2.4.16"}, func(s *sweep) {
		req := e.request()
		var id string
		if knows {
			var err error
			id, err = known.IDFor(req)
			e.need(err == nil, "ID of a request: %v", err)
		} else {
			id = e.create(req) // then it is the Create that comes again which the Delete meets
		}
		deleted := make(chan error, 1)
		s.faults[0].Do = func(Call) { go func() { deleted <- e.remove(e.p, id) }() }
		if !s.arm() {
			return
		}
		_, createErr := e.p.Create(e.ctx, req)
		if len(e.h.Faults.Calls())-s.start < s.nth {
			s.disarm()
			return // that many calls are not made
		}
		deleteErr := <-deleted
		s.disarm()
		e.must("R2.4.16", deleteErr == nil, "%s: Delete during Create: %v", s.at(), deleteErr)
		e.must("R2.4.16", createErr == nil || errors.Is(createErr, provider.ErrTransient), "%s: Create during Delete: %v", s.at(), createErr)
		found, _ := e.look("R2.4.16")
		mine := found.of(req.Name)
		sizes := []int{len(mine.instances()), len(mine.kind(Resource))}
		e.must("R2.4.16", slices.Equal(sizes, []int{0, 0}) || slices.Equal(sizes, []int{1, want.resources}),
			"%s: after Create and Delete at once the backend has %s: neither nothing nor one instance with %d resources", s.at(), mine, want.resources)
		e.need(e.remove(e.p, id) == nil, "delete failed")
	})
}

func deleteResumed(e *exam) {
	id := e.create(e.request())
	if e.h.HoldWork == nil {
		e.lacks("way to hold up the backend's work", "R2.4.18")
		return
	}
	release, err := e.h.HoldWork(e.ctx)
	if !e.done(err, "way to hold up the backend's work", "R2.4.18") {
		return
	}
	err = e.p.Delete(e.ctx, id)
	e.mustBe("R2.4.18", err, provider.ErrTransient, "", "Delete while the backend still removes")
	release()
	err = e.remove(e.p, id)
	e.must("R2.4.18", err == nil, "Delete after the backend has removed: %v", err)
}
