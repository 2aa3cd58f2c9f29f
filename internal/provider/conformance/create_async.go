package conformance

var createAsyncCases = []Case{
	{Name: "create whose work goes on", Rules: []string{"R2.2.10", "R2.2.11"}, try: createGoesOn},
	{Name: "create whose work failed", Rules: []string{"R2.2.12"}, try: createFailedWork},
}

// createGoesOn creates while the backend does not come to an end with the instance.
func createGoesOn(e *exam) {
	if e.h.HoldWork == nil {
		e.lacks("way to hold up the backend's work", "R2.2.10", "R2.2.11")
		return
	}
	release, err := e.h.HoldWork(e.ctx)
	if !e.done(err, "way to hold up the backend's work", "R2.2.10", "R2.2.11") {
		return
	}
	defer release()
	req := e.request()
	id := e.create(req)
	before, looks := e.look("R2.2.10", "R2.2.11")
	if looks {
		mine := before.of(req.Name).instances()
		marked := len(mine) == 1 && mine[0].Mark != nil && mine[0].Mark.UID == req.UID && mine[0].Mark.Owner == e.h.Owner
		e.must("R2.2.10", marked, "Create returned an ID, and the backend has %s: not one instance with the mark", mine)
	}
	again, err := e.p.Create(e.ctx, req)
	e.must("R2.2.11", err == nil && again == id, "Create while the work goes on gives %q, %v, want %q", again, err, id)
	if looks {
		after, _ := e.look("R2.2.11")
		e.must("R2.2.11", before.detail() == after.detail(), "Create while the work goes on changed the backend from\n%s\nto\n%s", before.detail(), after.detail())
	}
}

func createFailedWork(e *exam) {
	if e.h.FailWork == nil {
		e.lacks("way to fail the backend's work", "R2.2.12")
		return
	}
	mend, err := e.h.FailWork(e.ctx)
	if !e.done(err, "way to fail the backend's work", "R2.2.12") {
		return
	}
	req := e.request()
	id := e.create(req)
	mend()
	again, err := e.settle(e.p, req)
	e.must("R2.2.12", err == nil && again == id, "Create after the work failed gives %q, %v, want %q", again, err, id)
	running := false
	for range repeats {
		found, ok := e.look("R2.2.12")
		if !ok {
			return
		}
		mine := found.of(req.Name).instances()
		if running = len(mine) == 1 && mine[0].Running; running || !pause(e.ctx) {
			break
		}
	}
	e.must("R2.2.12", running, "Create after the work failed did not start it again: the instance does not run")
}
