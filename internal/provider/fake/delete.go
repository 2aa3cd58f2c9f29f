package fake

import (
	"context"
	"errors"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Delete removes the instance and its disk.
func (p *Provider) Delete(ctx context.Context, id string) error {
	begin := time.Now()
	return p.finish(ctx, Delete, id, begin, p.delete(ctx, id))
}

func (p *Provider) delete(ctx context.Context, id string) error {
	at, err := parse(id)
	if err != nil || !p.configured(at.zone) {
		return err // nil for a zone that is not ours to ask
	}
	if err := p.begin(ctx, Delete); err != nil {
		return err
	}
	done, err := p.takeTurn(ctx, at)
	if err != nil {
		return err
	}
	defer done()
	// The mark is read again before each step that destroys something.
	for _, step := range []func(context.Context, place) error{p.backend.stop, p.backend.undefine} {
		err := p.removable(ctx, at)
		if err == nil {
			err = step(ctx, at)
		}
		if errors.Is(err, errAbsent) {
			break
		}
		if err != nil {
			return err
		}
	}
	// The disk is taken for ours by its name, now that no instance has it.
	return p.backend.removeDisk(ctx, at)
}

// removable reads what stands at the place: errAbsent when nothing does, an error when it is not ours.
func (p *Provider) removable(ctx context.Context, at place) error {
	found, err := p.backend.lookUp(ctx, at)
	switch {
	case err != nil:
		return err
	case found.unreadable:
		return unreadable(at)
	case !p.ours(found):
		return provider.Errorf(provider.ErrPermanent, provider.ReasonNotOurs,
			"zone %s: what stands under the name %s is not ours, and stays", at.zone, at.name)
	}
	return nil
}
