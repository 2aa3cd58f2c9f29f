package static

import (
	"context"
	"fmt"
	"time"
)

const (
	// callLimit is the longest that one call to the file system may take (contract 5.2).
	callLimit = 10 * time.Second
	// callsPerZone is how many may be under way for one zone (R5.1.6). A file system that hangs keeps that many
	// goroutines and no more (R2.1.6).
	callsPerZone = 16
)

// limited gives the calls of a store their ends: the file system knows no ctx, and a hard NFS mount whose server is
// away does not answer at all.
type limited struct {
	inner store
	slots map[string]chan struct{}
}

func newLimited(inner store, zones []string) limited {
	l := limited{inner: inner, slots: map[string]chan struct{}{}}
	for _, zone := range zones {
		l.slots[zone] = make(chan struct{}, callsPerZone)
	}
	return l
}

// within makes a call in a goroutine of its own and leaves it there when ctx ends or the limit passes.
func within[T any](ctx context.Context, l limited, zone string, call func(context.Context) (T, error)) (T, error) {
	var none T
	limit, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	gaveUp := func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return fmt.Errorf("the file system did not answer in %v: %w", callLimit, context.DeadlineExceeded)
	}
	if limit.Err() != nil {
		return none, gaveUp()
	}
	slot := l.slots[zone]
	select {
	case slot <- struct{}{}:
	case <-limit.Done():
		return none, gaveUp()
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := call(limit)
		<-slot
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-limit.Done():
		return none, gaveUp()
	}
}

// only makes a call that has no value.
func only(ctx context.Context, l limited, zone string, call func(context.Context) error) error {
	_, err := within(ctx, l, zone, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
	return err
}

// Read implements store.
func (l limited) Read(ctx context.Context, zone, file string) ([]byte, error) {
	return within(ctx, l, zone, func(ctx context.Context) ([]byte, error) { return l.inner.Read(ctx, zone, file) })
}

// Claims implements store.
func (l limited) Claims(ctx context.Context, zone string) ([]string, error) {
	return within(ctx, l, zone, func(ctx context.Context) ([]string, error) { return l.inner.Claims(ctx, zone) })
}

// Prepare implements store.
func (l limited) Prepare(ctx context.Context, zone string) error {
	return only(ctx, l, zone, func(ctx context.Context) error { return l.inner.Prepare(ctx, zone) })
}

// Make implements store.
func (l limited) Make(ctx context.Context, zone, file string, content []byte) error {
	return only(ctx, l, zone, func(ctx context.Context) error { return l.inner.Make(ctx, zone, file, content) })
}

// Link implements store.
func (l limited) Link(ctx context.Context, zone, from, to string) error {
	return only(ctx, l, zone, func(ctx context.Context) error { return l.inner.Link(ctx, zone, from, to) })
}

// Replace implements store.
func (l limited) Replace(ctx context.Context, zone, file string, from, to []byte) error {
	return only(ctx, l, zone, func(ctx context.Context) error { return l.inner.Replace(ctx, zone, file, from, to) })
}

// Remove implements store.
func (l limited) Remove(ctx context.Context, zone, file string, content []byte) error {
	return only(ctx, l, zone, func(ctx context.Context) error { return l.inner.Remove(ctx, zone, file, content) })
}

// Writable implements store.
func (l limited) Writable(ctx context.Context, zone string) error {
	return only(ctx, l, zone, func(ctx context.Context) error { return l.inner.Writable(ctx, zone) })
}

// Dial implements store. A connection knows ctx, and takes no place from the file system's calls.
func (l limited) Dial(ctx context.Context, zone, address string) error {
	return l.inner.Dial(ctx, zone, address)
}
