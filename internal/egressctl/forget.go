package egressctl

import (
	"context"
	"errors"
	"fmt"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/state"
)

// forget removes a record. The entry need not be in the providers file any more.
func (r *runner) forget(ctx context.Context, name string) (err error) {
	dir, err := r.openState()
	if err != nil {
		return err
	}
	entry := r.entryName
	if entry == "" {
		entries := recordedEntries(dir, name)
		if len(entries) == 0 {
			return r.printDelete(deleteResult{Name: name, Deleted: []string{}}, "nothing is recorded of "+name)
		}
		if len(entries) != 1 {
			return fail(CodeUsage, "--entry is needed: %s is recorded under %s", name, listing(entries))
		}
		entry = entries[0]
	}
	unlock, err := r.lock(ctx, dir, entry, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, local(unlock())) }()
	_, loadErr := dir.Load(entry, name)
	recorded := !errors.Is(loadErr, state.ErrNoRecord) // one that cannot be read is forgotten too
	if err := dir.Remove(entry, name); err != nil {
		return local(err)
	}
	said := fmt.Sprintf("%s: nothing was recorded of %s", entry, name)
	if recorded {
		said = fmt.Sprintf("%s: %s is forgotten; what stands on its host stays there", entry, name)
	}
	return r.printDelete(deleteResult{name, entry, []string{}, recorded}, said)
}
