package kvm2

import (
	"context"
	"errors"
	"fmt"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// failed makes of err what a method returns: of one class, with what was being done and the entry's
// name. classification is classify, or classifyInCreate for the methods that never say NotFound: to
// Create, Delete and a list, something that is missing in the middle is a doubt.
func (p *Provider) failed(ctx context.Context, classification func(string, error) error, op string, err error) error {
	return provider.Wrap(p.name, classification(op, becauseEnded(ctx, err)))
}

// becauseEnded gives a doubt that came after ctx ended the context's own error too: a call that is given
// up takes its connection along, so the ones beside it see a broken connection.
func becauseEnded(ctx context.Context, err error) error {
	ended := ctx.Err()
	if ended == nil || errors.Is(err, ended) || !errors.Is(provider.ClassOf(classify("", err)), provider.ErrTransient) {
		return err
	}
	return fmt.Errorf("%w: %w", ended, err)
}
