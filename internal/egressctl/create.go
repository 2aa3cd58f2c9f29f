package egressctl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/state"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

const createHelp = `Create a VM that is a forward proxy, and wait until a request has really passed through it to the check URL
of the providers file. With "checkURL: none" it waits until the proxy takes our credential.

Run it again whenever it was interrupted or killed: it goes on with what there is and ends with one VM. What
was asked for is recorded first; flags that are left out are the recorded ones, and other values than the
recorded ones are refused once the VM exists. An existing VM that is stopped is started.

` + proxyFlagsHelp

const createExample = `  # With a password, on the entry's only host
  egressctl create berlin-1 --auth-user alice --password-file alice.password

  # For one network, to two sites, with a password that egressctl makes
  egressctl create berlin-2 --zone beelink --allow-source 198.51.100.0/24 \
    --allow-destination example.org --allow-destination example.com \
    --auth-user ci --generate-password

  # Go on after an interruption
  egressctl create berlin-2`

// createFlags are create's own.
type createFlags struct {
	proxyFlags
	noWait      bool
	waitTimeout time.Duration
	limit       time.Duration
}

func (r *runner) createCommand() *cobra.Command {
	f := &createFlags{}
	cmd := &cobra.Command{
		Use:               "create NAME",
		Short:             "Create a proxy and wait until it works",
		Long:              createHelp,
		Example:           createExample,
		Args:              oneName,
		ValidArgsFunction: r.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.create(cmd, args[0], f)
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "end when the VM runs, do not wait for the proxy")
	cmd.Flags().DurationVar(&f.waitTimeout, "wait-timeout", 10*time.Minute, "wait for the proxy at most this `DURATION` once the VM runs")
	cmd.Flags().DurationVar(&f.limit, "timeout", 30*time.Minute, "give up making the VM after this `DURATION`, image transfer included")
	return cmd
}

func (r *runner) create(cmd *cobra.Command, name string, f *createFlags) (err error) {
	ctx, cancel := r.limited(cmd, f.limit)
	defer cancel()
	t, err := r.open(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	rec, err := r.ensure(ctx, t, name, &f.proxyFlags)
	if err != nil {
		return err
	}
	waitCtx, cancelWait := r.limited(cmd, f.waitTimeout)
	defer cancelWait()
	v, err := r.outcome(waitCtx, t, rec, f.noWait)
	if err != nil {
		return err
	}
	if err := r.printView(v); err != nil {
		return err
	}
	r.hintUse(v, rec)
	return nil
}

// ensure settles what the instance is made from, and has the provider make it or finish it.
func (r *runner) ensure(ctx context.Context, t *target, name string, f *proxyFlags) (rec *state.Record, err error) {
	unlock, err := r.lock(ctx, t.dir, t.entry.Name, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, local(unlock())) }()
	if rec, err = r.settle(ctx, t, name, f); err != nil {
		return nil, err
	}
	at := t.place(rec)
	r.meter.Start()
	defer r.meter.Stop()
	r.meter.Say(fmt.Sprintf("creating %s on %s", name, at), "")
	id, err := t.provider.Create(provider.WithProgress(ctx, r.report), t.request(rec))
	if err != nil {
		return nil, r.notCreated(ctx, t, rec, err)
	}
	if rec.ID != id {
		rec.ID = id
		return rec, local(t.dir.Save(rec))
	}
	return rec, nil
}

// notCreated says why, and how to go on where that is open.
func (r *runner) notCreated(ctx context.Context, t *target, rec *state.Record, err error) error {
	switch {
	case interrupted(ctx):
		return r.interruptedCreate("creating", t, rec)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fail(CodeTransient, "%s: create %s: not done within --timeout: run %q to go on",
			t.place(rec), rec.Name, r.again("create", t.entry.Name, rec.Name))
	}
	return refused(t.place(rec), "create "+rec.Name, err)
}

// report shows the provider's progress.
func (r *runner) report(p provider.Progress) {
	if p.Done > 0 || p.Total > 0 {
		r.meter.Bytes(p.Step, p.Done, p.Total)
		return
	}
	r.meter.Say(p.Step, "")
}

// interruptedCreate says how to go on.
func (r *runner) interruptedCreate(doing string, t *target, rec *state.Record) error {
	return fail(CodeInterrupted, "interrupted while %s %s on %s: run %q to go on, or %q to remove what there is",
		doing, rec.Name, t.place(rec), r.again("create", t.entry.Name, rec.Name), r.again("delete", t.entry.Name, rec.Name))
}

// outcome is the instance at the end: as it is, or when a request has passed.
func (r *runner) outcome(ctx context.Context, t *target, rec *state.Record, noWait bool) (*view, error) {
	if !noWait {
		return r.wait(ctx, t, rec)
	}
	inst, err := t.provider.Get(ctx, rec.ID)
	if err != nil {
		return nil, refused(t.place(rec), "get "+rec.Name, err)
	}
	v := viewOf(t.entry.Name, inst, rec)
	return &v, nil
}

// hintUse says how to use the proxy.
func (r *runner) hintUse(v *view, rec *state.Record) {
	if v.Address == "" {
		r.hint("It has no address yet. Look again: %s", r.again("get", v.Entry, v.Name))
		return
	}
	user := ""
	if v.AuthUser != "" {
		user = " --proxy-user " + v.AuthUser
	}
	plain := view{Address: v.Address, Port: v.Port}
	r.hint("Try it: curl -x %s%s https://example.org", plain.proxyURL(""), user)
	if rec.Password != "" {
		r.hint("Its password: %s --show-password", r.again("get", v.Entry, v.Name))
	}
}
