package egressctl

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/cloudinit"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/state"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// draft is what a run asks for: its flags over what is recorded.
type draft struct {
	inputs state.Inputs
	// userData of the user's own; nil for ours.
	userData []byte
	password password
}

// draft reads the flags and the files that they name. prior may be nil.
func (r *runner) draft(ctx context.Context, t *target, f *proxyFlags, prior *state.Record) (draft, error) {
	var d draft
	var err error
	if f.userDataFile != "" {
		if d.userData, err = readFile(ctx, f.userDataFile, r.In); err != nil {
			return d, fail(CodeUsage, "--user-data-file: %w", err)
		}
		if len(d.userData) == 0 {
			return d, fail(CodeUsage, "--user-data-file: the file is empty")
		}
	}
	base := state.Inputs{}
	if prior != nil {
		base = prior.Inputs
	}
	if d.inputs, err = f.inputs(base, d.userData); err != nil {
		return d, err
	}
	if d.userData == nil && d.inputs.UserDataSHA256 != "" {
		d.userData = prior.UserData
	}
	if err := choicesOf(t.entry).complete(t.entry.Name, &d.inputs.Placement); err != nil {
		return d, err
	}
	err = d.readPassword(ctx, r, f)
	return d, err
}

func (d *draft) readPassword(ctx context.Context, r *runner, f *proxyFlags) (err error) {
	if d.inputs.AuthUser == "" {
		if f.generatePassword || f.passwordFile != "" {
			return fail(CodeUsage, "a password needs a user: give --auth-user")
		}
		return nil
	}
	d.password, err = f.password(ctx, r)
	return err
}

// changes tells where the draft asks for something else than prior has.
func (d *draft) changes(prior *state.Record) []string {
	out := differences(prior.Inputs, d.inputs)
	if d.inputs.AuthUser != "" && d.password.differs(prior) {
		out = append(out, "another password")
	}
	return out
}

// settle gives the record that an instance is made from: the one there is, or a new one, which is kept
// before anything is asked of a host, so that a run after a crash sends the same bytes.
func (r *runner) settle(ctx context.Context, t *target, name string, f *proxyFlags) (*state.Record, error) {
	prior, err := t.load(name)
	if err != nil {
		return nil, err
	}
	d, err := r.draft(ctx, t, f, prior)
	if err != nil {
		return nil, err
	}
	if prior != nil {
		changes := d.changes(prior)
		if len(changes) == 0 {
			r.log.V(1).Info("going on with the record", "entry", prior.Entry, "name", prior.Name, "recorded", prior.CreatedAt)
			return prior, nil
		}
		if err := r.replace(ctx, t, prior, changes); err != nil {
			return nil, err
		}
	}
	rec, err := d.record(t, name, prior)
	if err != nil {
		return nil, err
	}
	return rec, local(t.dir.Save(rec))
}

// replace makes room for another record of the same name. It refuses as long as there may be an
// instance that was made from the old one.
func (r *runner) replace(ctx context.Context, t *target, prior *state.Record, changes []string) error {
	at := t.place(prior)
	spots, err := t.locate(ctx, prior.Name, prior)
	if err != nil {
		return err
	}
	for _, s := range spots {
		_, err := t.provider.Get(ctx, s.id)
		switch {
		case err == nil:
			return fail(CodePermanent, "%s: %s exists already, with %s: leave the other flags out to go on with it, or delete it first (%s)",
				at, prior.Name, strings.Join(changes, "; "), r.again("delete", t.entry.Name, prior.Name))
		case !errors.Is(err, provider.ErrNotFound):
			return refused(at, "find out whether "+prior.Name+" exists already with other flags", err)
		}
		if err := t.provider.Delete(ctx, s.id); err != nil { // what an interrupted create left
			return refused(at, "clear what an earlier create of "+prior.Name+" left", err)
		}
	}
	return nil
}

// record makes a new record. The hash and the probe's credential are made here, once.
func (d *draft) record(t *target, name string, prior *state.Record) (*state.Record, error) {
	rec := &state.Record{
		Entry: t.entry.Name, Name: name, UID: t.uid(name), InstanceName: t.instanceName(name),
		CreatedAt: time.Now().UTC(), Inputs: d.inputs, CheckURL: t.checkURL, UserData: d.userData,
	}
	if _, ok := provider.As[provider.Preconfigured](t.provider); ok {
		if err := d.existing(rec, prior); err != nil {
			return nil, err
		}
	} else if d.userData == nil {
		if err := d.setPassword(rec, prior); err != nil {
			return nil, err
		}
		if err := t.render(rec); err != nil {
			return nil, err
		}
	}
	return rec, t.identify(rec)
}

// setPassword hashes the password of the draft, or takes over what prior has.
func (d *draft) setPassword(rec, prior *state.Record) (err error) {
	text := d.password.text
	switch {
	case d.inputs.AuthUser == "":
		return nil
	case d.password.generate:
		text = rand.Text() // 130 bits, letters and digits only
		rec.Password = text
	case text == "" && prior != nil && prior.PasswordHash != "":
		rec.PasswordHash, rec.Password = prior.PasswordHash, prior.Password
		return nil
	case text == "":
		return fail(CodeUsage, "--auth-user needs a password: give --password-file, %s or --generate-password", passwordVariable)
	}
	if rec.PasswordHash, err = cloudinit.HashPassword(text); err != nil {
		return fail(CodeUsage, "the password of --auth-user %s: %w", d.inputs.AuthUser, err)
	}
	return nil
}

// identify sets the ID, where the provider knows it before Create, and refuses what no host would take.
func (t *target) identify(rec *state.Record) error {
	req := t.request(rec)
	if err := req.Validate(); err != nil {
		return &failure{code: CodeUsage, err: err}
	}
	identifier, ok := provider.As[provider.Identifier](t.provider)
	if !ok {
		return nil
	}
	id, err := identifier.IDFor(req)
	if err != nil {
		return refused(t.place(rec), "name "+rec.Name, err)
	}
	rec.ID = id
	return nil
}
