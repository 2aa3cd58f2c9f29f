package static

import (
	"context"
	"errors"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Create leases a free endpoint of the zone. The user-data is not used: the proxy is there already (R10.3).
func (p *Provider) Create(ctx context.Context, req provider.CreateRequest) (string, error) {
	begin := time.Now()
	id, err := p.create(ctx, req)
	return id, p.finish(ctx, "create", req.Name, begin, err)
}

// IDFor gives the ID that Create gives.
func (p *Provider) IDFor(req provider.CreateRequest) (string, error) {
	at, err := p.accept(req)
	if err != nil {
		return "", provider.Wrap(p.name, err)
	}
	return at.id(), nil
}

// accept refuses what needs no look at the lease directory.
func (p *Provider) accept(req provider.CreateRequest) (place, error) {
	refuse := func(reason, format string, args ...any) (place, error) {
		return place{}, provider.Errorf(provider.ErrPermanent, reason, format, args...)
	}
	if err := req.Validate(); err != nil {
		return place{}, err
	}
	switch want := req.Placement; {
	case req.Owner != p.owner:
		return refuse(provider.ReasonInvalidRequest, "the request's owner %q is not the provider's", req.Owner)
	case !p.configured(want.Zone):
		return refuse(provider.ReasonUnknownZone, "the entry has no endpoint in zone %.80q; its zones are %q", want.Zone, p.zones)
	case want.MachineType != provider.StaticPlacement:
		return refuse(provider.ReasonUnknownMachineType, "machineType must be %q in a static entry, is %.80q", provider.StaticPlacement, want.MachineType)
	case want.Image != provider.StaticPlacement:
		return refuse(provider.ReasonUnknownImage, "image must be %q in a static entry, is %.80q", provider.StaticPlacement, want.Image)
	}
	return place{zone: req.Placement.Zone, name: req.Name}, nil
}

func (p *Provider) create(ctx context.Context, req provider.CreateRequest) (string, error) {
	at, err := p.accept(req)
	if err != nil {
		return "", err
	}
	done, err := p.turns.take(ctx, at)
	if err != nil {
		return "", classify(at.zone, "wait for another call", err)
	}
	defer done()
	a := attempt{Provider: p, at: at, req: req}
	if err := a.run(ctx); err != nil {
		if !errors.Is(err, provider.ErrTransient) {
			a.undo(ctx)
		}
		return "", err
	}
	return at.id(), nil
}

// attempt is one Create.
type attempt struct {
	*Provider
	at  place
	req provider.CreateRequest
	// made is the endpoint's lease that this call made; nil where there is none.
	made *record
	// again says that it was looked for every lease of the name after no free endpoint was found.
	again bool
	// prepared says that the folders were made.
	prepared bool
}

// changes is how often others may come between a look and a step. Each costs one lost race with another process.
const changes = 32

// run looks and takes one step, until a look finds the instance whole. So it ends only after everything was read
// back (R3.2.3), and what stands at its start, from whichever interrupted call, needs no case of its own.
func (a *attempt) run(ctx context.Context) error {
	for range changes {
		f, err := a.find(ctx, a.at, a.again)
		if err != nil {
			return err
		}
		if f.held == nil && !a.prepared {
			a.prepared = true
			if err := a.store.Prepare(ctx, a.at.zone); err != nil {
				return classify(a.at.zone, "make the folders for leases", err)
			}
		}
		whole, err := a.step(ctx, f)
		switch {
		case errors.Is(err, errExists), errors.Is(err, errAbsent), errors.Is(err, errChanged):
			continue // somebody was faster: look again
		case err != nil:
			return classify(a.at.zone, "lease an endpoint", err)
		case whole:
			return a.drop(ctx, f.held)
		}
	}
	return provider.Errorf(provider.ErrTransient, provider.ReasonBackendError,
		"zone %s: the leases keep changing while %s is leased", a.at.zone, a.at.name)
}

// step does what is missing most. Errors of the store that only say that another look is needed come back as
// they are.
func (a *attempt) step(ctx context.Context, f *found) (whole bool, err error) {
	current := f.instance()
	if current == nil && f.link == nil {
		return false, a.claim(ctx, f)
	}
	if current == nil {
		// The second name without its lease: somebody took the endpoint's file away, or a delete was interrupted by one.
		if err := a.adoptable(f.link); err != nil {
			return false, err
		}
		return false, a.store.Remove(ctx, a.at.zone, f.link.file, f.link.content)
	}
	if err := a.adoptable(current); err != nil {
		return false, err
	}
	if current.Mark.UID == "" {
		return false, a.finishMark(ctx, current)
	}
	if f.held != nil {
		return true, nil
	}
	return false, a.store.Link(ctx, a.at.zone, current.file, a.at.instanceFile())
}

// adoptable refuses to take up what is not this request's instance.
func (a *attempt) adoptable(r *record) error {
	conflict := func(whose string) error {
		return provider.Errorf(provider.ErrPermanent, provider.ReasonNameConflict,
			"zone %s: %s stands under the name %s: remove it or use another name", a.at.zone, whose, a.at.name)
	}
	switch {
	case r.Mark == nil:
		return conflict("a file without our mark")
	case r.Mark.Owner != a.owner:
		return conflict("another owner's lease")
	case r.Mark.UID != "" && r.Mark.UID != a.req.UID:
		return conflict("another lease of ours")
	}
	return nil
}

// finishMark gives the UID to a mark that has none (R2.2.17). The creation time stays (R3.2.6).
func (a *attempt) finishMark(ctx context.Context, r *record) error {
	whole := r.lease
	m := *r.Mark
	m.UID, m.Ref = a.req.UID, a.req.Ref
	whole.Mark = &m
	content, err := whole.encode()
	if err != nil {
		return err
	}
	return a.store.Replace(ctx, a.at.zone, r.file, r.content, content)
}

// claim takes the first endpoint of the zone that nobody has, in the entry's order.
func (a *attempt) claim(ctx context.Context, f *found) error {
	for _, e := range a.config.In(a.at.zone) {
		file := claimFile(e.Address, e.Port)
		if f.taken[file] {
			continue
		}
		l := newLease(a.at, e, a.req, a.now())
		content, err := l.encode()
		if err != nil {
			return err
		}
		err = a.store.Make(ctx, a.at.zone, file, content)
		if errors.Is(err, errExists) {
			continue
		}
		if err == nil {
			a.made = &record{lease: l, file: file, content: content}
		}
		return err
	}
	if !a.again {
		// The last endpoint may just have been taken for this very name, by another process.
		a.again = true
		return errChanged
	}
	if freed, err := a.reclaim(ctx); freed || err != nil {
		return err
	}
	n := len(a.config.In(a.at.zone))
	return provider.Errorf(provider.ErrQuotaExceeded, provider.ReasonQuotaExceeded,
		"all %d endpoints are leased: delete what is not used, or add an endpoint to the entry", n)
}

// reclaim gives back the endpoints whose leases are nobody's: leases of ours whose name has another lease, that is
// what a process left which lost a race and died. Such a lease can never come to hold again.
func (a *attempt) reclaim(ctx context.Context) (freed bool, err error) {
	for _, e := range a.config.In(a.at.zone) {
		r, err := a.readable(ctx, a.at.zone, claimFile(e.Address, e.Port))
		if err != nil {
			return false, err
		}
		if r == nil || !r.ours(a.owner) {
			continue
		}
		link, err := a.readable(ctx, a.at.zone, r.place().instanceFile())
		if err != nil {
			return false, err
		}
		if link == nil || link.Token == r.Token {
			continue
		}
		if err := a.store.Remove(ctx, a.at.zone, r.file, r.content); err != nil {
			return false, err
		}
		freed = true
	}
	return freed, nil
}

// drop gives back the endpoint that this call leased in vain, because another process was faster.
func (a *attempt) drop(ctx context.Context, held *record) error {
	if a.made == nil || a.made.Token == held.Token {
		return nil
	}
	return classify(a.at.zone, "give an endpoint back", a.store.Remove(ctx, a.at.zone, a.made.file, a.made.content))
}

// undo takes back what a refused call made (R2.2.27). What it cannot take back, a Delete does.
func (a *attempt) undo(ctx context.Context) {
	if a.made == nil {
		return
	}
	_ = a.store.Remove(ctx, a.at.zone, a.at.instanceFile(), a.made.content) // the refusal is told, not this
	_ = a.store.Remove(ctx, a.at.zone, a.made.file, a.made.content)
}
