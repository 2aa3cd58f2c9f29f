package conformance

import (
	"errors"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// shape is what an instance consists of in the backend.
type shape struct{ resources, shared int }

// measure makes and removes an instance undisturbed, to know its shape; what instances share is there from then
// on.
func (e *exam) measure(rules ...string) (shape, bool) {
	if _, ok := e.look(rules...); !ok {
		return shape{}, false
	}
	req := e.request()
	id := e.create(req)
	found, _ := e.look(rules...)
	out := shape{resources: len(found.of(req.Name).kind(Resource)), shared: len(found.kind(Shared))}
	e.need(len(found.of(req.Name).instances()) == 1, "the independent look finds %s after a create, want one instance", found.of(req.Name))
	e.need(e.remove(e.p, id) == nil, "delete of an instance failed")
	return out, true
}

// mustBeOne tries that one whole, marked instance of the request stands in the backend and nothing beside it.
func (e *exam) mustBeOne(rule string, req provider.CreateRequest, want shape, at string) {
	found, ok := e.look(rule)
	if !ok {
		return
	}
	mine := found.of(req.Name)
	e.must(rule, len(mine.instances()) == 1 && len(mine.kind(Resource)) == want.resources,
		"%s: the backend has %s, want one instance with %d secondary resources", at, mine, want.resources)
	e.must(rule, len(found.kind(Shared)) <= want.shared,
		"%s: the backend has %s, want no more shared resources than after an undisturbed create: %d", at, found.kind(Shared), want.shared)
}

// mustBeNone tries that nothing of the name is left.
func (e *exam) mustBeNone(rule, name, at string) {
	if found, ok := e.look(rule); ok {
		e.must(rule, len(found.of(name)) == 0, "%s: the backend still has %s, want nothing", at, found.of(name))
	}
}

// mustBe tries class and reason of an error.
func (e *exam) mustBe(rule string, err, class error, reason, what string) {
	ok := errors.Is(err, class) && (reason == "" || provider.ReasonOf(err) == reason)
	want := class.Error()
	if reason != "" {
		want += " with the reason " + reason
	}
	e.must(rule, ok, "%s gives the error %v (reason %q), want %s", what, err, provider.ReasonOf(err), want)
}

// unchanged tries that something changes nothing in the backend.
func (e *exam) unchanged(rule, text string, what func()) {
	before, ok := e.look(rule)
	what()
	if !ok {
		return
	}
	after, _ := e.look(rule)
	e.must(rule, before.detail() == after.detail(), "%s changed the backend from\n%s\nto\n%s", text, before.detail(), after.detail())
}
