package conformance

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

var createConflictCases = []Case{
	{Name: "create where something unmarked stands", Rules: []string{"R2.2.14", "R2.2.28", "R2.1.7"}, try: createOverUnmarked},
	{Name: "create where another owner's instance stands", Rules: []string{"R2.2.15", "R2.2.28", "R2.1.7"}, try: createOverForeign},
	{Name: "create where an instance with another UID stands", Rules: []string{"R2.2.16", "R2.2.28"}, try: createOverOtherUID},
	{Name: "create of a half-made instance", Rules: []string{"R2.2.17"}, try: createFinishes},
}

// otherOwner is nobody's.
const otherOwner = "conformance-another-owner"

// longAgo is when planted instances were made.
var longAgo = time.Date(2020, time.February, 29, 12, 0, 0, 0, time.UTC)

// foreignMark is another owner's.
func foreignMark() *Mark {
	return &Mark{Owner: otherOwner, UID: uuid.New().String(), Ref: "elsewhere/its-own", CreatedAt: longAgo}
}

// plant puts something under the name of a request.
func (e *exam) plant(req provider.CreateRequest, mark *Mark, rules ...string) (id string, ok bool) {
	if e.h.Plant == nil {
		e.lacks("way to plant an instance", rules...)
		return "", false
	}
	planted := Planted{Zone: req.Placement.Zone, Name: req.Name, Mark: mark, UID: uuid.New().String()}
	if mark != nil && mark.UID != "" {
		planted.UID = mark.UID
	}
	id, err := e.h.Plant(e.ctx, planted)
	return id, e.done(err, "way to plant an instance", rules...)
}

func createOverUnmarked(e *exam) {
	e.createOver("R2.2.14", nil, "something without a mark", "R2.1.7")
}

func createOverForeign(e *exam) {
	e.createOver("R2.2.15", foreignMark(), "another owner's instance", "R2.1.7")
}

func createOverOtherUID(e *exam) {
	e.createOver("R2.2.16", &Mark{Owner: e.h.Owner, UID: uuid.New().String(), Ref: "conformance/other", CreatedAt: longAgo}, "an instance with another UID")
}

// createOver tries Create under a name that is taken.
func (e *exam) createOver(rule string, mark *Mark, what string, foreign ...string) {
	req := e.request()
	if _, ok := e.plant(req, mark, e.def.Rules...); !ok {
		return
	}
	before, looks := e.look(e.def.Rules...)
	for range 2 {
		id, err := e.p.Create(e.ctx, req)
		e.mustBe(rule, err, provider.ErrPermanent, provider.ReasonNameConflict, "Create where "+what+" stands")
		e.must(rule, id == "", "Create where %s stands gives the ID %q", what, id)
	}
	if !looks {
		return
	}
	after, _ := e.look(e.def.Rules...)
	for _, r := range append([]string{"R2.2.28"}, foreign...) {
		e.must(r, before.of(req.Name).detail() == after.of(req.Name).detail(), "Create changed %s from\n%s\nto\n%s", what, before.of(req.Name).detail(), after.of(req.Name).detail())
	}
}

// createFinishes finishes an instance of ours whose mark has no UID: the provider's own that lost it, else a planted
// one.
func createFinishes(e *exam) {
	req := e.request()
	id, ok := e.halfMade(req, "R2.2.17")
	if !ok {
		return
	}
	got, err := e.settle(e.p, req)
	if !e.must("R2.2.17", err == nil && got == id, "Create of a half-made instance gives %q, %v, want %q", got, err, id) {
		return
	}
	inst, err := e.p.Get(e.ctx, id)
	e.must("R2.2.17", err == nil && inst.UID == req.UID, "Get of the finished instance gives the UID %q, %v, want %q", inst.UID, err, req.UID)
	if found, ok := e.look("R2.2.17"); ok {
		mine := found.of(req.Name).instances()
		finished := len(mine) == 1 && mine[0].Mark != nil && mine[0].Mark.UID == req.UID
		e.must("R2.2.17", finished, "the backend has %s, and not one instance with the request's UID", mine)
	}
}

// halfMade makes an instance of ours whose mark has no UID.
func (e *exam) halfMade(req provider.CreateRequest, rules ...string) (id string, ok bool) {
	id = e.create(req)
	if e.h.SetMark == nil {
		e.lacks("way to change a mark", rules...)
		return "", false
	}
	inst, err := e.p.Get(e.ctx, id)
	e.need(err == nil, "get: %v", err)
	err = e.h.SetMark(e.ctx, id, &Mark{Owner: e.h.Owner, Ref: req.Ref, CreatedAt: inst.CreatedAt})
	if errors.Is(err, errors.ErrUnsupported) {
		e.lacks("way to change a mark", rules...)
		return "", false
	}
	e.need(err == nil, "take the UID out of a mark: %v", err)
	return id, true
}
