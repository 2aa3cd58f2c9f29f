package conformance

import (
	"errors"
	"slices"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

var getCases = []Case{
	{Name: "get of an instance", Safe: true, Rules: []string{"R2.3.1", "R2.3.18", "R2.3.19"}, try: getTells},
	{Name: "every answer after a restart", Rules: []string{"R2.1.5", "R2.3.18"}, try: getAfterRestart},
	{Name: "get before the first create", Safe: true, Rules: []string{"R2.3.21"}, try: getBeforeCreate},
	{Name: "get after delete", Safe: true, Rules: []string{"R2.3.2"}, try: getAfterDelete},
	{Name: "get of what has no mark", Rules: []string{"R2.3.6"}, try: getUnmarked},
	{Name: "get of another owner's instance", Rules: []string{"R2.3.7"}, try: getForeign},
	{Name: "get of a half-made instance", Rules: []string{"R2.3.14"}, try: getHalfMade},
	{Name: "get of an instance whose mark cannot be read", Rules: []string{"R2.3.8"}, try: getSpoiled},
	{Name: "get of a malformed ID", Safe: true, Rules: []string{"R2.3.9"}, try: getMalformed},
	{Name: "get on a host that is not configured", Rules: []string{"R2.3.10"}, try: getElsewhere},
	{Name: "get of an instance that does not run", Rules: []string{"R2.3.13"}, try: getPowers},
	{Name: "get of an instance that somebody removed", Rules: []string{"R2.3.2"}, try: getRemoved},
}

func getTells(e *exam) {
	req := e.request()
	id := e.create(req)
	var first provider.Instance
	e.unchanged("R2.3.19", "Get", func() {
		var err error
		first, err = e.p.Get(e.ctx, id)
		e.must("R2.3.1", err == nil, "Get: %v", err)
	})
	want := provider.Instance{ID: id, Name: req.Name, Zone: req.Placement.Zone, UID: req.UID, Owner: req.Owner, Ref: req.Ref}
	got := provider.Instance{ID: first.ID, Name: first.Name, Zone: first.Zone, UID: first.UID, Owner: first.Owner, Ref: first.Ref}
	e.must("R2.3.1", sameFacts(got, want), "Get gives %+v, want %+v", got, want)
	second, err := e.p.Get(e.ctx, id)
	e.must("R2.3.1", err == nil, "Get again: %v", err)
	created := first.CreatedAt
	e.must("R2.3.18", !created.IsZero() && created.Equal(second.CreatedAt) && created.Location() == time.UTC,
		"Get gives the creation times %v and %v, want one in UTC", first.CreatedAt, second.CreatedAt)
}

// sameFacts compares what the mark and the ID say, and nothing that may change.
func sameFacts(a, b provider.Instance) bool {
	return a.ID == b.ID && a.Name == b.Name && a.Zone == b.Zone && a.UID == b.UID && a.Owner == b.Owner && a.Ref == b.Ref
}

func getAfterRestart(e *exam) {
	req := e.request()
	id := e.create(req)
	before, err := e.p.Get(e.ctx, id)
	e.need(err == nil, "get: %v", err)
	list, err := e.p.ListByTag(e.ctx)
	e.need(err == nil, "list: %v", err)
	gone := e.create(e.request())
	e.need(e.remove(e.p, gone) == nil, "delete failed")
	next, ok := e.restarted("R2.1.5", "R2.3.18")
	if !ok {
		return
	}
	after, err := next.Get(e.ctx, id)
	e.must("R2.1.5", err == nil && sameFacts(before, after) && before.State == after.State,
		"Get after a restart gives %+v, %v, before it %+v", after, err, before)
	e.must("R2.3.18", after.CreatedAt.Equal(before.CreatedAt), "the creation time is %v after a restart, %v before", after.CreatedAt, before.CreatedAt)
	again, err := next.ListByTag(e.ctx)
	e.must("R2.1.5", err == nil && slices.Equal(idsOf(again), idsOf(list)), "ListByTag after a restart gives %q, %v, before it %q", idsOf(again), err, idsOf(list))
	_, err = next.Get(e.ctx, gone)
	e.must("R2.1.5", errors.Is(err, provider.ErrNotFound), "Get of a deleted instance after a restart: %v, want NotFound", err)
	e.must("R2.1.5", e.remove(next, id) == nil, "Delete after a restart failed")
}

func idsOf(list []provider.Instance) []string {
	out := make([]string, 0, len(list))
	for _, inst := range list {
		out = append(out, inst.ID)
	}
	return out
}

// getBeforeCreate asks on a backend in which a harness may not have made anything yet, as a controller does that finds
// the ID of its first instance written down.
func getBeforeCreate(e *exam) {
	identifier, ok := provider.As[provider.Identifier](e.h.Provider)
	if !ok {
		e.lacks("ID before the first create", "R2.3.21")
		return
	}
	id, err := identifier.IDFor(e.request())
	e.need(err == nil, "ID of a request: %v", err)
	_, err = e.p.Get(e.ctx, id)
	e.mustBe("R2.3.21", err, provider.ErrNotFound, "", "Get before the first Create")
}

func getAfterDelete(e *exam) {
	id := e.create(e.request())
	err := e.remove(e.p, id)
	e.need(err == nil, "delete: %v", err)
	_, err = e.p.Get(e.ctx, id)
	e.mustBe("R2.3.2", err, provider.ErrNotFound, "", "Get after Delete")
}

func getRemoved(e *exam) {
	id := e.create(e.request())
	if e.h.Remove == nil {
		e.lacks("way to remove an instance", "R2.3.2")
		return
	}
	if e.done(e.h.Remove(e.ctx, id), "way to remove an instance", "R2.3.2") {
		_, err := e.p.Get(e.ctx, id)
		e.mustBe("R2.3.2", err, provider.ErrNotFound, "", "Get of an instance that somebody removed")
	}
}

func getUnmarked(e *exam) { e.getPlanted("R2.3.6", nil, "something without a mark") }

func getForeign(e *exam) { e.getPlanted("R2.3.7", foreignMark(), "another owner's instance") }

func (e *exam) getPlanted(rule string, mark *Mark, what string) {
	if id, ok := e.plant(e.request(), mark, rule); ok {
		_, err := e.p.Get(e.ctx, id)
		e.mustBe(rule, err, provider.ErrNotFound, "", "Get of "+what)
	}
}

func getHalfMade(e *exam) {
	id, ok := e.halfMade(e.request(), "R2.3.14")
	if !ok {
		return
	}
	inst, err := e.p.Get(e.ctx, id)
	e.must("R2.3.14", err == nil && inst.State == provider.StateProvisioning && inst.UID == "",
		"Get of a half-made instance gives the state %q and the UID %q, %v, want Provisioning and none", inst.State, inst.UID, err)
}

func getSpoiled(e *exam) {
	req := e.request()
	id := e.create(req)
	if mend, ok := e.spoil(req, id, "R2.3.8"); ok {
		defer mend()
		_, err := e.p.Get(e.ctx, id)
		e.mustBe("R2.3.8", err, provider.ErrTransient, "", "Get of an instance whose mark cannot be read")
	}
}

// spoil makes the mark of an instance unreadable, until mended: nobody could remove it.
func (e *exam) spoil(req provider.CreateRequest, id, rule string) (mend func(), ok bool) {
	const what = "way to spoil a mark"
	if e.h.SpoilMark == nil || e.h.SetMark == nil {
		e.lacks(what, rule)
		return nil, false
	}
	inst, err := e.p.Get(e.ctx, id)
	e.need(err == nil, "get: %v", err)
	if !e.done(e.h.SpoilMark(e.ctx, id), what, rule) {
		return nil, false
	}
	return func() {
		err := e.h.SetMark(e.ctx, id, &Mark{Owner: e.h.Owner, UID: req.UID, Ref: req.Ref, CreatedAt: inst.CreatedAt})
		e.need(err == nil, "mend a mark: %v", err)
	}, true
}

// malformedIDs are no provider's.
var malformedIDs = []string{"", "/", "not an ID", "a/b", "\x00", "hosts//domains/", "../../etc/passwd", "zones/a/instances/", "%2e%2e/%2e"}

func getMalformed(e *exam) {
	for _, id := range malformedIDs {
		e.silent("R2.3.9", "Get of a malformed ID", func() {
			_, err := e.p.Get(e.ctx, id)
			e.mustBe("R2.3.9", err, provider.ErrPermanent, provider.ReasonInvalidID, "Get of a malformed ID")
		})
	}
}

func getElsewhere(e *exam) {
	if id, p, ok := e.elsewhere("R2.3.10"); ok {
		_, err := p.Get(e.ctx, id)
		e.mustBe("R2.3.10", err, provider.ErrPermanent, provider.ReasonHostNotConfigured, "Get on a host that is not configured")
	}
}

// elsewhere gives an ID whose host the provider beside it does not have: the harness's, or of an instance on a host
// that has left the configuration.
func (e *exam) elsewhere(rules ...string) (id string, p *subject, ok bool) {
	if e.h.ElsewhereID != "" {
		return e.h.ElsewhereID, e.p, true
	}
	last := len(e.h.Zones) - 1
	if last < 1 {
		e.lacks("ID on a host that is not configured", rules...)
		return "", nil, false
	}
	p, ok = e.build(Variation{Zones: e.h.Zones[:last]}, "other hosts", rules...)
	if !ok {
		return "", nil, false
	}
	return e.create(e.requestIn(e.h.Zones[last])), p, true
}

func getPowers(e *exam) {
	for _, power := range []Power{Off, Paused, Crashed, Odd} {
		id := e.create(e.request())
		if e.h.SetPower == nil {
			e.lacks("way to stop an instance", "R2.3.13")
			return
		}
		if !e.done(e.h.SetPower(e.ctx, id, power), "instance that is "+string(power), "R2.3.13") {
			continue
		}
		inst, err := e.p.Get(e.ctx, id)
		e.must("R2.3.13", err == nil && inst.State == provider.StateStopped, "Get of an instance that is %s gives the state %q, %v, want Stopped", power, inst.State, err)
	}
}
