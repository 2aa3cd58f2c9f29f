package conformance

import (
	"context"
	"slices"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

var listCases = []Case{
	{Name: "list of nothing", Rules: []string{"R2.5.9"}, try: listNothing},
	{Name: "list of an instance", Safe: true, Rules: []string{"R2.5.1", "R2.5.8", "R2.5.11"}, try: listOne},
	{Name: "list of every kind of instance", Rules: []string{"R2.5.1", "R2.5.2", "R2.5.3", "R2.5.6", "R2.5.10"}, try: listKinds},
	{Name: "list of many instances", Rules: []string{"R2.5.1", "R2.5.8"}, try: listMany},
	{Name: "list over several hosts", Rules: []string{"R2.5.7"}, try: listOrder},
	{Name: "list with a host that cannot be asked", Rules: []string{"R2.5.4", "R8.1.6"}, try: listUnreachable},
	{Name: "list with an instance that cannot be read", Rules: []string{"R2.5.5"}, try: listUnreadable},
	{Name: "list while instances vanish", Rules: []string{"R2.5.5"}, try: listVanishing},
}

// list lists what this case made, and ends the case where that fails.
func (e *exam) list() []provider.Instance {
	all, err := e.p.ListByTag(e.ctx)
	e.need(err == nil, "list: %v", err)
	return all
}

// named leaves in a list what has one of the names.
func named(list []provider.Instance, names ...string) []provider.Instance {
	return slices.DeleteFunc(slices.Clone(list), func(i provider.Instance) bool { return !slices.Contains(names, i.Name) })
}

func listNothing(e *exam) {
	p, ok := e.build(Variation{Owner: "conformance-nobody"}, "another owner's provider", "R2.5.9")
	if !ok {
		return
	}
	e.create(e.request()) // another owner's, for it
	list, err := p.ListByTag(e.ctx)
	e.must("R2.5.9", err == nil && len(list) == 0, "ListByTag of an owner that has nothing gives %q, %v", idsOf(list), err)
}

func listOne(e *exam) {
	req := e.request()
	id := e.create(req)
	var list []provider.Instance
	e.unchanged("R2.5.11", "ListByTag", func() { list = e.list() })
	found := named(list, req.Name)
	e.must("R2.5.8", slices.Contains(idsOf(found), id), "ListByTag gives the IDs %q, want %s among them", idsOf(list), id)
	e.must("R2.5.1", count(list, req.Name) == 1, "ListByTag gives %d instances of the name %s, want one", count(list, req.Name), req.Name)
	if len(found) == 1 {
		want := provider.Instance{ID: found[0].ID, Name: req.Name, Zone: req.Placement.Zone, UID: req.UID, Owner: req.Owner, Ref: req.Ref}
		e.must("R2.5.1", sameFacts(found[0], want), "ListByTag gives %+v, want %+v", found[0], want)
	}
}

func listKinds(e *exam) {
	running, stopped := e.request(), e.request()
	names := []string{running.Name, stopped.Name}
	first, id := e.create(running), e.create(stopped)
	if e.h.SetPower == nil {
		e.lacks("way to stop an instance", "R2.5.1")
	} else {
		e.done(e.h.SetPower(e.ctx, id, Off), "way to stop an instance", "R2.5.1")
	}
	half := e.request()
	_, isHalf := e.halfMade(half, "R2.5.1", "R2.5.6")
	if isHalf {
		names = append(names, half.Name)
	}
	unmarked, foreign := e.request(), e.request()
	_, hasUnmarked := e.plant(unmarked, nil, "R2.5.2")
	_, hasForeign := e.plant(foreign, foreignMark(), "R2.5.3")
	if e.h.SetInterfaces == nil {
		e.lacks("way to take a guest's addresses", "R2.5.10")
	} else {
		e.done(e.h.SetInterfaces(e.ctx, first), "way to take a guest's addresses", "R2.5.10")
	}
	list := e.list()
	for _, name := range names {
		e.must("R2.5.1", count(list, name) == 1, "ListByTag gives %d instances of the name %s, want one", count(list, name), name)
	}
	if isHalf {
		for _, inst := range named(list, half.Name) {
			e.must("R2.5.6", inst.UID == "", "ListByTag gives the UID %q for an instance whose mark has none", inst.UID)
		}
		e.must("R2.5.6", count(list, half.Name) == 1, "ListByTag leaves out an instance whose mark has no UID")
	}
	if hasUnmarked {
		e.must("R2.5.2", count(list, unmarked.Name) == 0, "ListByTag gives something without a mark")
	}
	if hasForeign {
		e.must("R2.5.3", count(list, foreign.Name) == 0, "ListByTag gives another owner's instance")
	}
	for _, inst := range list {
		e.must("R2.5.10", inst.State != provider.StateRunning || len(inst.Addresses) > 0, "ListByTag says Running of %s, without an address", inst.ID)
	}
}

const usualMany = 200

func listMany(e *exam) {
	many := e.h.Many
	if many == 0 {
		many = usualMany
	}
	var ids, names []string
	for range many {
		req := e.request()
		ids, names = append(ids, e.create(req)), append(names, req.Name)
	}
	got := idsOf(named(e.list(), names...))
	slices.Sort(got)
	slices.Sort(ids)
	e.must("R2.5.1", len(got) == many, "ListByTag gives %d of %d instances", len(got), many)
	e.must("R2.5.8", len(got) != many || slices.Equal(got, ids), "ListByTag gives other IDs than Create")
}

func listOrder(e *exam) {
	if len(e.h.Zones) < 2 {
		e.lacks("second host", "R2.5.7")
		return
	}
	var names []string
	for _, zone := range slices.Backward(e.h.Zones) {
		for range 2 {
			req := e.requestIn(zone)
			e.create(req)
			names = append(names, req.Name)
		}
	}
	var zones []string
	for _, inst := range named(e.list(), names...) {
		zones = append(zones, inst.Zone)
	}
	e.must("R2.5.7", slices.Equal(slices.Compact(zones), e.h.Zones), "ListByTag gives the hosts in the order %q, the entry %q", zones, e.h.Zones)
}

func listUnreachable(e *exam) {
	for _, zone := range e.h.Zones {
		e.create(e.requestIn(zone))
	}
	for _, zone := range e.h.Zones {
		ok := e.under([]Fault{{Kind: Unreachable, Host: zone, First: 1}}, e.def.Rules, func() {
			list, err := e.p.ListByTag(e.ctx)
			e.must("R2.5.4", err != nil && len(list) == 0, "ListByTag with the host %s unreachable gives %d instances, %v, want an error and none", zone, len(list), err)
			if err != nil {
				e.mustBe("R8.1.6", err, provider.ErrTransient, "", "ListByTag with an unreachable host")
			}
		})
		if !ok {
			return
		}
	}
}

func listUnreadable(e *exam) {
	good, req := e.request(), e.request()
	e.create(good)
	bad := e.create(req)
	mend, ok := e.spoil(req, bad, "R2.5.5")
	if !ok {
		return
	}
	defer mend()
	list, err := e.p.ListByTag(e.ctx)
	e.must("R2.5.5", err == nil && count(list, good.Name) == 1 && count(list, req.Name) == 0,
		"ListByTag with an instance that cannot be read gives %q, %v, want the other one only", idsOf(list), err)
}

// listVanishing removes an instance before each backend call of a ListByTag.
func listVanishing(e *exam) {
	if e.h.Remove == nil {
		e.lacks("way to remove an instance", "R2.5.5")
		return
	}
	stays := e.request()
	e.create(stays)
	nothing := func(n int) []Fault { return []Fault{{Kind: Nothing, First: n, Count: 1}} }
	e.everyCall(nothing, []string{"R2.5.5"}, func(s *sweep) {
		victim := e.create(e.request())
		var removed error
		s.faults[0].Do = func(Call) { removed = e.h.Remove(context.WithoutCancel(e.ctx), victim) }
		if !s.arm() {
			return
		}
		list, err := e.p.ListByTag(e.ctx)
		s.disarm()
		if removed == nil {
			e.must("R2.5.5", err == nil && count(list, stays.Name) == 1,
				"%s: ListByTag while an instance vanishes gives %q, %v, want the other one", s.at(), idsOf(list), err)
		}
		e.need(e.remove(e.p, victim) == nil, "delete failed")
	})
}
