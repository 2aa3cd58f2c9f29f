package fake

import (
	"context"
	"errors"
	"slices"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Create makes or finishes the instance and returns once it runs.
func (p *Provider) Create(ctx context.Context, req provider.CreateRequest) (string, error) {
	begin := time.Now()
	id, err := p.create(ctx, req)
	return id, p.finish(ctx, Create, req.Name, begin, err)
}

func (p *Provider) create(ctx context.Context, req provider.CreateRequest) (string, error) {
	at, err := p.accept(req)
	if err != nil {
		return "", err
	}
	if err := p.begin(ctx, Create); err != nil {
		return "", err
	}
	done, err := p.takeTurn(ctx, at)
	if err != nil {
		return "", err
	}
	defer done()
	made, err := p.ensure(ctx, at, req)
	if err == nil {
		return at.id(), nil
	}
	if class := provider.ClassOf(err); made && !errors.Is(class, provider.ErrTransient) {
		p.backend.undo(at, req.UID)
	}
	if errors.Is(err, errAbsent) || errors.Is(err, errExists) {
		// It came or went while we worked: a repeated call sees what there is then.
		err = provider.Errorf(provider.ErrTransient, provider.ReasonBackendError, "zone %s: %s: %w", at.zone, at.name, err)
	}
	return "", err
}

// begin is a method's start: a ctx that has ended, or the test's script, ends it there.
func (p *Provider) begin(ctx context.Context, method Call) error {
	lost, err := p.backend.enter(ctx, method)
	if err != nil {
		return err
	}
	return lost
}

// ensure brings the instance to where the request wants it. made says that the first change was this
// call's.
func (p *Provider) ensure(ctx context.Context, at place, req provider.CreateRequest) (made bool, err error) {
	found, err := p.backend.lookUp(ctx, at)
	switch {
	case errors.Is(err, errAbsent):
		return p.make(ctx, at, req)
	case err != nil:
		return false, err
	}
	if err := p.adoptable(at, found, req.UID); err != nil {
		return false, err
	}
	if found.mark.uid == "" {
		if err := p.backend.complete(ctx, at, req.UID, req.Ref); err != nil {
			return false, err
		}
	}
	if found.running() {
		return false, nil
	}
	return false, p.backend.start(ctx, at)
}

func (p *Provider) make(ctx context.Context, at place, req provider.CreateRequest) (made bool, err error) {
	if err := p.backend.makeDisk(ctx, at, req.Placement.Image); err != nil {
		return false, err
	}
	err = p.backend.define(ctx, at, instance{
		mark:      &mark{owner: p.owner, uid: req.UID, ref: req.Ref, createdAt: p.now().UTC().Truncate(time.Second)},
		placement: req.Placement,
		cloudInit: slices.Clone(req.CloudInit),
	})
	if err != nil {
		return true, err
	}
	return true, p.backend.start(ctx, at)
}

// adoptable refuses to finish what is not the instance of the UID.
func (p *Provider) adoptable(at place, found instance, uid string) error {
	conflict := func(whose string) error {
		return provider.Errorf(provider.ErrPermanent, provider.ReasonNameConflict,
			"zone %s: %s under the name %s: remove it or use another name", at.zone, whose, at.name)
	}
	switch {
	case found.unreadable:
		return unreadable(at)
	case found.mark == nil:
		return conflict("an instance without a mark stands")
	case found.mark.owner != p.owner:
		return conflict("another owner's instance stands")
	case found.mark.uid != "" && found.mark.uid != uid:
		return conflict("another instance of ours stands")
	}
	return nil
}

// unreadable: an instance whose mark cannot be read is nobody's and not nobody's.
func unreadable(at place) error {
	return provider.Errorf(provider.ErrTransient, provider.ReasonBackendError,
		"zone %s: the mark of %s cannot be read", at.zone, at.name)
}

// undo removes what a create that is refused for good had made.
func (b *Backend) undo(at place, uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if inst := b.instances[at]; inst != nil {
		if inst.mark == nil || inst.mark.uid != uid {
			return
		}
		delete(b.instances, at)
		b.changed(at)
	}
	delete(b.disks, at)
}
