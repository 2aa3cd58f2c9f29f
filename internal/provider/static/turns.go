package static

import (
	"context"
	"sync"
)

// turns lets Create and Delete of one name run one after the other within this process (R5.1.1). Between
// processes the names in the lease directory decide.
type turns struct {
	mu   sync.Mutex
	busy map[place]*turn
}

type turn struct {
	token chan struct{}
	users int
}

// take waits for the place's turn, or for the end of ctx (R5.1.2).
func (t *turns) take(ctx context.Context, at place) (done func(), err error) {
	t.mu.Lock()
	if t.busy == nil {
		t.busy = map[place]*turn{}
	}
	one := t.busy[at]
	if one == nil {
		one = &turn{token: make(chan struct{}, 1)}
		t.busy[at] = one
	}
	one.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(t.busy, at)
		}
	}
	select {
	case one.token <- struct{}{}:
		return func() {
			<-one.token
			leave()
		}, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
