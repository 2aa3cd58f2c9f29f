package fake

import (
	"context"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// watched is how many changes wait for a reader; more are dropped, as a hint may be.
const watched = 64

// Watch sends the IDs of instances that changed, also behind the provider's back.
func (p *Provider) Watch(ctx context.Context) (<-chan string, error) {
	if err := ctx.Err(); err != nil {
		return nil, provider.Wrap(p.name, err)
	}
	b, ids := p.backend, make(chan string, watched)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watchers[ids] = true
	context.AfterFunc(ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.watchers, ids)
		close(ids)
	})
	return ids, nil
}

// changed tells the watchers. The caller holds the lock.
func (b *Backend) changed(at place) {
	for ids := range b.watchers {
		select {
		case ids <- at.id():
		default: // nobody reads
		}
	}
}
