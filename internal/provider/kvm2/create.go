package kvm2

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/go-logr/logr"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Create makes the instance, or finishes one that an earlier call left half made, and returns its ID
// once it runs. It never says ErrNotFound. Each step leaves what the next call takes up; a call that
// ends in ErrPermanent or ErrQuotaExceeded, or whose start libvirt refused, takes back what it made.
func (p *Provider) Create(ctx context.Context, req provider.CreateRequest) (string, error) {
	ctx, log := p.begin(ctx, "create")
	started := time.Now()
	plan, err := p.plan(req)
	if err != nil {
		return "", p.failed(ctx, classifyInCreate, "create "+clip(req.Name), err)
	}
	log.V(2).Info("creating an instance", "id", plan.id, "uid", req.UID, "image", plan.imageName,
		"machineType", req.Placement.MachineType, "cloudInitBytes", len(req.CloudInit))
	if err := p.create(ctx, plan); err != nil {
		return "", p.failed(ctx, classifyInCreate, "create "+plan.id, err)
	}
	log.V(1).Info("instance runs", "id", plan.id, "duration", time.Since(started).String())
	return plan.id, nil
}

func (p *Provider) create(ctx context.Context, plan plan) error {
	unlock, err := p.names.lock(ctx, plan.req.Name)
	if err != nil {
		return fmt.Errorf("wait for another call of this name: %w", err)
	}
	defer unlock()
	c, err := p.hosts.control(ctx, plan.host.Name)
	if err != nil {
		return err
	}
	// Looked up before anything is written: libvirt redefines a domain of equal name and UUID
	// without a word.
	s, err := look(ctx, c, plan.req.Name)
	if err != nil {
		return err
	}
	if !s.found {
		return p.makeNew(ctx, c, plan, time.Now())
	}
	return p.takeUp(ctx, c, plan, s)
}

// takeUp goes on with what stands under the name, where that is this instance.
func (p *Provider) takeUp(ctx context.Context, c conn, plan plan, s standing) error {
	switch {
	case !p.owns(s.info):
		return nameConflict(plan.req.Name, describeOwner(s.info))
	case s.info.Mark.UID == "":
		return p.makeAgain(ctx, c, plan, s.info.Mark.CreatedAt)
	case s.info.Mark.UID != plan.req.UID:
		return nameConflict(plan.req.Name, "is the instance with the UID "+clip(s.info.Mark.UID))
	}
	return finish(ctx, c, s)
}

// makeAgain replaces a domain of ours whose mark has no UID. Nobody uses it, as it is not an instance
// yet, and a domain's UUID cannot be changed in place. It keeps its creation time.
func (p *Provider) makeAgain(ctx context.Context, c conn, plan plan, createdAt time.Time) error {
	if _, err := p.removeDomain(ctx, c, plan.req.Name); err != nil {
		return err
	}
	if createdAt.IsZero() {
		createdAt = time.Now()
	}
	return p.makeNew(ctx, c, plan, createdAt)
}

// makeNew makes everything in an order in which a crash leaves nothing that the next Create or a
// Delete does not find by the instance's name: volumes first, then the domain with its mark, then the
// start.
func (p *Provider) makeNew(ctx context.Context, c conn, plan plan, createdAt time.Time) error {
	var made []volume
	err := p.makeSteps(ctx, c, plan, createdAt, &made)
	if err == nil || !settled(err) || ctx.Err() != nil || !alive(c) {
		return err
	}
	if undoErr := p.undo(ctx, c, plan, made); undoErr != nil {
		logr.FromContextOrDiscard(ctx).V(1).Info("what a failed create made is still there; the next create or delete takes it up",
			"id", plan.id, "problem", undoErr.Error())
	}
	return err
}

func (p *Provider) makeSteps(ctx context.Context, c conn, plan plan, createdAt time.Time, made *[]volume) error {
	disks, err := p.makeVolumes(ctx, c, plan, made)
	if err != nil {
		return err
	}
	// Looked up again: an image's transfer takes minutes, in which another process may have come first.
	s, err := look(ctx, c, plan.req.Name)
	if err != nil {
		return err
	}
	if s.found {
		return p.takeUp(ctx, c, plan, s)
	}
	dom, err := p.define(ctx, c, plan, disks, createdAt)
	if err != nil {
		return err
	}
	if err := start(ctx, c, dom); err != nil {
		return startError{err}
	}
	return nil
}

// startError is a start that libvirt refused or that led to no running domain.
type startError struct{ error }

func (e startError) Unwrap() error { return e.error }

// settled reports whether a failed create is over, so that what it made is taken back: the class says
// that it will not heal by itself, or libvirt refused the start, which is where missing firmware, a
// missing bridge or a denied file shows. The next attempt then follows the configuration as it is.
// Everything else is left as it is for the next call to finish.
func settled(err error) bool {
	var refused startError
	if errors.As(err, &refused) {
		return isAnswer(err)
	}
	class := provider.ClassOf(classifyInCreate("", err))
	return errors.Is(class, provider.ErrPermanent) || errors.Is(class, provider.ErrQuotaExceeded)
}

// undo takes back what this call made, unless it runs after all. Where somebody else's domain came under
// the name meanwhile, that is the volumes of made which no domain uses.
func (p *Provider) undo(ctx context.Context, c conn, plan plan, made []volume) error {
	s, err := look(ctx, c, plan.req.Name)
	if err != nil {
		return err
	}
	if s.found {
		switch {
		case !p.owns(s.info) || s.info.Mark.UID != plan.req.UID:
			return removeMade(ctx, c, plan.req.Name, made)
		case s.info.Active:
			return fmt.Errorf("domain %s runs", plan.req.Name)
		}
		if err := undefine(ctx, c, s.dom); err != nil {
			return err
		}
	}
	pl, defined, err := poolToClean(ctx, c, plan.host.Pool, plan.req.Name)
	if err != nil || !defined {
		return err
	}
	// Not all of these need be this call's: one that it met and that a domain uses stays.
	return p.removeVolumes(ctx, c, pl, plan.req.Name, false)
}

// removeMade removes volumes that a create made a moment ago, and keeps those that a domain uses.
func removeMade(ctx context.Context, c backend, instance string, made []volume) error {
	var errs []error
	for _, vol := range made {
		err := checkUnused(ctx, c, instance, vol)
		if err == nil {
			err = c.StorageVolDelete(ctx, vol)
		}
		if err != nil && !isLibvirtError(err, libvirt.ErrNoStorageVol) {
			errs = append(errs, fmt.Errorf("remove volume %s: %w", vol.Name, err))
		}
	}
	return errors.Join(errs...)
}
