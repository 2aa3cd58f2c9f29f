package egressctl

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/output"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/state"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

const (
	// lookEvery and lookJitter space the looks at an instance, so that many egressctl do not ask a host
	// in step.
	lookEvery  = 2 * time.Second
	lookJitter = time.Second
)

// wait looks at the instance until a request has passed through it, or ctx ends. Errors that may pass
// are shown and waited out.
func (r *runner) wait(ctx context.Context, t *target, rec *state.Record) (*view, error) {
	r.meter.Start()
	defer r.meter.Stop()
	missing, guest := "nothing is known of it yet", t.guest(rec.ID)
	for {
		v, status, err := r.look(ctx, t, rec)
		switch {
		case err != nil:
			return nil, err
		case status == "":
			return v, nil
		case ctx.Err() == nil: // else the status tells of the end only
			missing = output.Clean(status)
			if said := guest.says(ctx); said != "" {
				missing += "; " + said
			}
			r.meter.Say(fmt.Sprintf("waiting for %s on %s", rec.Name, t.place(rec)), missing)
		}
		if !pause(ctx) {
			return nil, r.gaveUp(ctx, t, rec, missing)
		}
	}
}

// pause waits for the next look. It is false when ctx has ended.
func pause(ctx context.Context) bool {
	timer := time.NewTimer(lookEvery + rand.N(lookJitter)) //nolint:gosec // jitter need not be unpredictable
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// look gives the instance and what is missing still, which is "" when a request passed. An error ends
// the wait.
func (r *runner) look(ctx context.Context, t *target, rec *state.Record) (v *view, missing string, err error) {
	inst, err := t.provider.Get(ctx, rec.ID)
	at := t.place(rec)
	switch {
	case errors.Is(err, provider.ErrNotFound):
		return nil, "", fail(CodeNotFound, "%s: %s was deleted while it was waited for", at, rec.Name)
	case errors.Is(err, provider.ErrPermanent):
		return nil, "", refused(at, "get "+rec.Name, err)
	case err != nil:
		r.log.V(1).Info("not read, looking again", "entry", at.entry, "name", rec.Name, "error", err.Error())
		return nil, unnamed(at.entry, err).Error(), nil
	case inst.State == provider.StateStopped:
		return nil, "", fail(CodeNotServing, "%s: %s has stopped while it was waited for: start it again with %q, or look at its console with %q",
			at, rec.Name, r.again("create", t.entry.Name, rec.Name), r.again("console", t.entry.Name, rec.Name))
	}
	view := viewOf(t.entry.Name, inst, rec)
	if inst.State != provider.StateRunning || view.Address == "" {
		return &view, "no address yet", nil
	}
	return &view, r.tryProxy(ctx, &view, rec), nil
}

// gaveUp says what was missing in the end, and how to go on.
func (r *runner) gaveUp(ctx context.Context, t *target, rec *state.Record, missing string) error {
	if interrupted(ctx) {
		return r.interruptedCreate("waiting for", t, rec)
	}
	return fail(CodeNotServing, "%s: no request passed through %s within --wait-timeout: %s; it stays: run %q to see its console, %q to wait on, or %q to remove it",
		t.place(rec), rec.Name, missing, r.again("console", t.entry.Name, rec.Name), r.again("create", t.entry.Name, rec.Name), r.again("delete", t.entry.Name, rec.Name))
}
