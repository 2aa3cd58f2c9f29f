package conformance

import (
	"errors"
	"strings"
	"sync"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

var createCases = []Case{
	{Name: "create twice and ten times", Safe: true, Rules: []string{"R2.2.2", "R2.2.8"}, try: createAgain},
	{Name: "create after a restart", Rules: []string{"R2.2.2"}, try: createAfterRestart},
	{Name: "twenty creates of one request", Safe: true, Rules: []string{"R2.2.3"}, try: createAtOnce},
	{Name: "twenty instances at once", Rules: []string{"R2.1.1", "R2.2.6"}, try: createMany},
	{Name: "create returns a running instance", Rules: []string{"R2.2.9"}, try: createReturnsRunning},
	{Name: "the mark from the first moment", Rules: []string{"R2.2.7", "R8.3.4"}, try: createMarks},
	{Name: "create of a stopped instance", Rules: []string{"R2.2.13"}, try: createStarts},
	{Name: "every legal name", Rules: []string{"R2.2.23"}, try: createNames},
	{Name: "user-data of every byte", Rules: []string{"R2.2.24"}, try: createBinary},
}

func createAgain(e *exam) {
	req := e.request()
	first := e.create(req)
	_, err := e.p.Get(e.ctx, first)
	e.must("R2.2.8", !errors.Is(err, provider.ErrNotFound), "Get of the ID that Create returned: %v", err)
	before, ok := e.look("R2.2.2")
	for range 9 {
		id, err := e.p.Create(e.ctx, req)
		e.must("R2.2.2", err == nil && id == first, "Create again gives %q, %v, want %q", id, err, first)
	}
	if ok {
		after, _ := e.look("R2.2.2")
		e.must("R2.2.2", len(after) == len(before), "the backend has %s after ten creates, %s after one", after, before)
	}
	_, err = e.p.Get(e.ctx, first)
	e.must("R2.2.8", !errors.Is(err, provider.ErrNotFound), "Get after ten creates: %v", err)
}

func createAfterRestart(e *exam) {
	req := e.request()
	first := e.create(req)
	next, ok := e.restarted("R2.2.2")
	if !ok {
		return
	}
	before, looks := e.look("R2.2.2")
	id, err := next.Create(e.ctx, req)
	e.must("R2.2.2", err == nil && id == first, "Create after a restart gives %q, %v, want %q", id, err, first)
	if looks {
		after, _ := e.look("R2.2.2")
		e.must("R2.2.2", len(after) == len(before), "the backend has %s after a create by a restarted provider, %s before", after, before)
	}
}

const atOnce = 20

func createAtOnce(e *exam) {
	want, looks := e.measure("R2.2.3")
	req := e.request()
	var (
		mu       sync.Mutex
		ids      = map[string]bool{}
		failures []error
		calls    sync.WaitGroup
	)
	for range atOnce {
		calls.Go(func() {
			id, err := e.p.Create(e.ctx, req)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				ids[id] = true
			} else {
				failures = append(failures, err)
			}
		})
	}
	calls.Wait()
	for _, err := range failures {
		e.must("R2.2.3", errors.Is(err, provider.ErrTransient), "one of twenty creates of one request: %v, want an ID or Transient", err)
	}
	id := e.create(req)
	ids[id] = true
	e.must("R2.2.3", len(ids) == 1, "twenty creates of one request gave %d IDs, want one", len(ids))
	if looks {
		e.mustBeOne("R2.2.3", req, want, "after twenty creates at once")
	}
	list, err := e.p.ListByTag(e.ctx)
	e.need(err == nil, "list: %v", err)
	e.must("R2.2.3", count(list, req.Name) == 1, "the list has %d instances of the name, want one", count(list, req.Name))
}

func count(list []provider.Instance, name string) int {
	n := 0
	for _, inst := range list {
		if inst.Name == name {
			n++
		}
	}
	return n
}

// createMany uses every method on twenty instances at once. A failure that comes of that is R2.1.1's; instances that
// run into one another are R2.2.6's.
func createMany(e *exam) {
	reqs := make([]provider.CreateRequest, atOnce)
	ids := make([]string, atOnce)
	all := func(what string, do func(n int) error) {
		var calls sync.WaitGroup
		for n := range atOnce {
			calls.Go(func() {
				err := do(n)
				e.must("R2.1.1", err == nil, "%s, as one of %d at once: %v", what, atOnce, err)
			})
		}
		calls.Wait()
	}
	for n := range reqs {
		reqs[n] = e.requestIn(e.h.Zones[n%len(e.h.Zones)])
	}
	all("create", func(n int) (err error) {
		ids[n], err = e.settle(e.p, reqs[n])
		return err
	})
	distinct := map[string]bool{}
	for _, id := range ids {
		distinct[id] = true
	}
	e.must("R2.2.6", len(distinct) == atOnce, "%d requests gave %d IDs: %q", atOnce, len(distinct), ids)
	if found, ok := e.look("R2.2.6"); ok {
		for _, req := range reqs {
			n := len(found.of(req.Name).instances())
			e.must("R2.2.6", n == 1, "%d instances of the name %s, want one", n, req.Name)
		}
	}
	all("get", func(n int) error {
		inst, err := e.p.Get(e.ctx, ids[n])
		if err == nil {
			e.must("R2.2.6", inst.UID == reqs[n].UID, "Get of instance %d gives the UID %s, want %s", n, inst.UID, reqs[n].UID)
		}
		return err
	})
	all("delete", func(n int) error { return e.remove(e.p, ids[n]) })
	for n, id := range ids {
		_, err := e.p.Get(e.ctx, id)
		e.must("R2.1.1", errors.Is(err, provider.ErrNotFound), "Get of instance %d after twenty deletes at once: %v, want NotFound", n, err)
	}
}

func createReturnsRunning(e *exam) {
	req := e.request()
	_, err := e.p.Create(e.ctx, req)
	e.need(err == nil, "create: %v", err)
	running := func(at string) {
		if found, ok := e.look("R2.2.9"); ok {
			mine := found.of(req.Name).instances()
			e.must("R2.2.9", len(mine) == 1 && mine[0].Running, "%s: Create returned an ID, and the instance does not run", at)
		}
	}
	running("undisturbed")
	for _, kind := range []FaultKind{Strange, Denied, Dropped} {
		e.everyCall(once(kind), []string{"R2.2.9"}, func(s *sweep) {
			req = e.request()
			if !s.arm() {
				return
			}
			id, err := e.p.Create(e.ctx, req)
			s.disarm()
			if err == nil {
				running(s.at())
				e.need(e.remove(e.p, id) == nil, "delete failed")
				return
			}
			id = e.create(req)
			running(s.at() + ", and repeated")
			e.need(e.remove(e.p, id) == nil, "delete failed")
		})
	}
}

// discard removes what a create left that gave no ID.
func (e *exam) discard(req provider.CreateRequest) {
	id := e.create(req)
	err := e.remove(e.p, id)
	e.need(err == nil, "delete: %v", err)
}

// createMarks looks at the backend before each backend call of a create, and after it.
func createMarks(e *exam) {
	req := e.request()
	whole := func(found things, at string) {
		for _, one := range found.of(req.Name).instances() {
			ok := one.Mark != nil && one.Mark.Owner == e.h.Owner && one.Mark.UID == req.UID && one.Mark.Ref == req.Ref
			if ok && e.h.Axes["created-at"] == "written-at-create" {
				ok = !one.Mark.CreatedAt.IsZero()
			}
			e.must("R2.2.7", ok, "%s: the instance has the mark %+v, want owner %s, UID %s, ref %s and a creation time", at, one.Mark, e.h.Owner, req.UID, req.Ref)
		}
		for _, one := range found {
			e.must("R8.3.4", !e.seen.canary.in(one.Name+one.Content), "%s: %s %s tells user-data in its name or mark", at, one.Kind, one.Name)
		}
	}
	if e.h.Look == nil {
		e.lacks("independent look", "R2.2.7", "R8.3.4")
		return
	}
	watch := []Fault{{Kind: Nothing, First: 1, Do: func(c Call) {
		found, err := e.h.Look(e.ctx)
		e.must("R2.2.7", err == nil, "independent look before %s: %v", c.Name, err)
		whole(found, "before "+c.Name)
	}}}
	id := ""
	ok := e.under(watch, []string{"R2.2.7"}, func() { id = e.create(req) })
	if !ok {
		id = e.create(req)
	}
	found, _ := e.look("R2.2.7", "R8.3.4")
	whole(found, "after Create")
	e.need(e.remove(e.p, id) == nil, "delete failed")
}

func createStarts(e *exam) {
	req := e.request()
	id := e.create(req)
	if e.h.SetPower == nil {
		e.lacks("way to stop an instance", "R2.2.13")
		return
	}
	if !e.done(e.h.SetPower(e.ctx, id, Off), "way to stop an instance", "R2.2.13") {
		return
	}
	again, err := e.p.Create(e.ctx, req)
	e.must("R2.2.13", err == nil && again == id, "Create of a stopped instance gives %q, %v, want %q", again, err, id)
	if found, ok := e.look("R2.2.13"); ok {
		mine := found.of(req.Name).instances()
		e.must("R2.2.13", len(mine) == 1 && mine[0].Running, "Create of a stopped instance did not start it")
	}
}

const longestName = 63

func createNames(e *exam) {
	names := []string{
		"a", "0", "42", "0a", "a0", "a-b", "a--b-0", "9-9", strings.Repeat("a", longestName), strings.Repeat("0", longestName),
		"a" + strings.Repeat("-", longestName-2) + "z", "abcdefghijklmnopqrstuvwxyz-0123456789",
	}
	for _, name := range names {
		req := e.request()
		req.Name = name
		id, err := e.settle(e.p, req)
		if !e.must("R2.2.23", err == nil, "Create with the name %q: %v", name, err) {
			continue
		}
		inst, err := e.p.Get(e.ctx, id)
		e.must("R2.2.23", err == nil && inst.Name == name, "Get of the instance %q gives the name %q, %v", name, inst.Name, err)
		err = e.remove(e.p, id)
		e.must("R2.2.23", err == nil, "Delete of the instance %q: %v", name, err)
		e.mustBeNone("R2.2.23", name, "after Delete of the instance "+name)
	}
}

func createBinary(e *exam) {
	req := e.request()
	req.CloudInit = e.seen.canary.binary()
	id, err := e.settle(e.p, req)
	e.must("R2.2.24", err == nil && id != "", "Create with 64 KiB of user-data that holds every byte value: %v", err)
}
