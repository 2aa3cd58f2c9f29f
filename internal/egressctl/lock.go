package egressctl

import (
	"context"
	"errors"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/state"
)

// lock keeps other egressctl from working on the instance. It says so when it has to wait.
func (r *runner) lock(ctx context.Context, dir *state.Dir, entry, name string) (func() error, error) {
	unlock, err := dir.Lock(ctx, entry, name, func() {
		r.hint("Another egressctl works on %s of %s; waiting for it.", name, entry)
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fail(CodeTransient, "%s: another egressctl still works on %s: try again later", entry, name)
	}
	return unlock, local(err)
}
