package egressctl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/output"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/state"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

const deleteHelp = `Delete an instance and everything that was made for it, whatever state it is in, and forget its record.
Images stay on the host for the next one. Deleting what is not there is no error.

It works without the record too: where an instance stands follows from this installation's identity, the
entry and the name, so every host of the entry is looked at.

With --forget, only the record goes and no host is asked: for a host that is gone for good.`

const deleteExample = `  egressctl delete berlin-1
  egressctl delete berlin-1 --entry kvm2-home -o json`

func (r *runner) deleteCommand() *cobra.Command {
	var limit time.Duration
	var forget bool
	cmd := &cobra.Command{
		Use:               "delete NAME",
		Aliases:           []string{"rm"},
		Short:             "Delete an instance",
		Long:              deleteHelp,
		Example:           deleteExample,
		Args:              oneName,
		ValidArgsFunction: r.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := r.limited(cmd, limit)
			defer cancel()
			if forget {
				return r.forget(ctx, args[0])
			}
			return r.delete(ctx, args[0])
		},
	}
	cmd.Flags().DurationVar(&limit, "timeout", 5*time.Minute, "give up after this `DURATION`")
	cmd.Flags().BoolVar(&forget, "forget", false, "remove the record only, ask no host")
	return cmd
}

// deleteResult is what delete prints for scripts.
type deleteResult struct {
	Name  string `json:"name"`
	Entry string `json:"entry"`
	// Deleted IDs. Empty when nothing was there.
	Deleted []string `json:"deleted"`
	// Forgotten says that a record was removed.
	Forgotten bool `json:"forgotten"`
}

func (r *runner) delete(ctx context.Context, name string) (err error) {
	t, err := r.open(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	unlock, err := r.lock(ctx, t.dir, t.entry.Name, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, local(unlock())) }()

	rec, err := t.load(name)
	if err != nil {
		return err
	}
	deleted, err := r.deleteInstance(ctx, t, name, rec)
	if err != nil {
		return err
	}
	if err := t.dir.Remove(t.entry.Name, name); err != nil {
		return local(err)
	}
	said := fmt.Sprintf("%s: %s was not there", t.entry.Name, name)
	if len(deleted) > 0 {
		said = fmt.Sprintf("%s: deleted %s (%s)", t.entry.Name, name, listing(deleted))
	}
	return r.printDelete(deleteResult{name, t.entry.Name, deleted, rec != nil}, said)
}

// deleteInstance removes the instance wherever it may stand, and gives the IDs that were there.
func (r *runner) deleteInstance(ctx context.Context, t *target, name string, rec *state.Record) ([]string, error) {
	spots, err := t.locate(ctx, name, rec)
	if err != nil {
		return nil, err
	}
	r.meter.Start()
	defer r.meter.Stop()
	deleted, failures := []string{}, []error{}
	for _, s := range spots {
		at := place{t.entry.Name, s.zone}
		r.meter.Say(fmt.Sprintf("deleting %s on %s", name, at), "")
		there, err := deleteAt(ctx, t, s)
		switch {
		case interrupted(ctx):
			return nil, fail(CodeInterrupted, "interrupted while deleting %s on %s: run %q to finish",
				name, at, r.again("delete", t.entry.Name, name))
		case err != nil:
			failures = append(failures, refused(at, "delete "+name, err))
		case there:
			deleted = append(deleted, s.id)
		}
	}
	return deleted, firstOf(failures)
}

// deleteAt deletes one ID and says whether an instance was there. Get comes first because Delete does
// not tell, and because its silence about a host that is not configured any more is no proof.
func deleteAt(ctx context.Context, t *target, s spot) (there bool, err error) {
	_, err = t.provider.Get(ctx, s.id)
	if provider.ReasonOf(err) == provider.ReasonHostNotConfigured {
		return false, fmt.Errorf("%w; put the host back into the providers file, or give the instance up with --forget", err)
	}
	// Delete also when nothing is there: volumes of a half-made instance may be.
	absent := errors.Is(err, provider.ErrNotFound)
	return !absent, t.provider.Delete(ctx, s.id)
}

func (r *runner) printDelete(result deleteResult, said string) error {
	if r.format.Structured() {
		return local(output.Structure(r.Out, r.format, result))
	}
	_, err := fmt.Fprintln(r.Out, said)
	return local(err)
}
