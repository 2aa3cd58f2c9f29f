package static

import (
	"context"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Delete gives an endpoint back.
func (p *Provider) Delete(ctx context.Context, id string) error {
	begin := time.Now()
	return p.finish(ctx, "delete", id, begin, p.delete(ctx, id))
}

func (p *Provider) delete(ctx context.Context, id string) error {
	at, err := parseID(id)
	if err != nil || !p.configured(at.zone) {
		return err // nil for a zone that the entry does not have (R2.4.14)
	}
	done, err := p.turns.take(ctx, at)
	if err != nil {
		return classify(at.zone, "wait for another call", err)
	}
	defer done()
	f, err := p.find(ctx, at, true)
	if err != nil {
		return err
	}
	standing := f.claims
	if f.link != nil {
		standing = append([]*record{f.link}, standing...)
	}
	for _, r := range standing {
		if !r.ours(p.owner) {
			return notOurs(at)
		}
	}
	// The second name goes first: what is left is then a lease that a list shows, and that a Create or a Delete
	// takes up.
	for i, r := range standing {
		if err := p.remove(ctx, at, r, i > 0); err != nil {
			return err
		}
	}
	return nil
}

// remove takes one of a name's files away, after another look where something was done since the last one (R2.4.8).
func (p *Provider) remove(ctx context.Context, at place, r *record, look bool) error {
	if look {
		now, err := p.record(ctx, at.zone, r.file)
		switch {
		case err != nil:
			return err
		case now == nil:
			return nil
		case !now.ours(p.owner):
			return notOurs(at)
		}
	}
	return classify(at.zone, "remove "+r.file, p.store.Remove(ctx, at.zone, r.file, r.content))
}

func notOurs(at place) error {
	return provider.Errorf(provider.ErrPermanent, provider.ReasonNotOurs,
		"zone %s: the lease of %s is not ours: delete it with the operator that made it, or remove its files by hand", at.zone, at.name)
}
