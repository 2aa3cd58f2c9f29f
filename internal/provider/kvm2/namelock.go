package kvm2

import (
	"context"
	"sync"
)

// nameLocks is one lock per instance name. The zero value is ready for use.
type nameLocks struct {
	mu    sync.Mutex
	locks map[string]*nameLock
}

// nameLock exists while somebody holds it or waits for it.
type nameLock struct {
	slot  chan struct{}
	users int
}

// lock waits until name is free or ctx ends. The caller calls unlock once.
func (l *nameLocks) lock(ctx context.Context, name string) (unlock func(), err error) {
	lock := l.join(name)
	select {
	case lock.slot <- struct{}{}:
		return func() { <-lock.slot; l.part(name, lock) }, nil
	case <-ctx.Done():
		l.part(name, lock)
		return nil, ctx.Err()
	}
}

func (l *nameLocks) join(name string) *nameLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.locks == nil {
		l.locks = map[string]*nameLock{}
	}
	lock := l.locks[name]
	if lock == nil {
		lock = &nameLock{slot: make(chan struct{}, 1)}
		l.locks[name] = lock
	}
	lock.users++
	return lock
}

func (l *nameLocks) part(name string, lock *nameLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lock.users--; lock.users == 0 {
		delete(l.locks, name)
	}
}
