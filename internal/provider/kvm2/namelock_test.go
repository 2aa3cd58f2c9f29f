package kvm2

import (
	"context"
	"errors"
	"testing"
)

func TestNameLocks_oneHolderPerName(t *testing.T) {
	var locks nameLocks
	unlock, err := locks.lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	other, err := locks.lock(t.Context(), "b")
	if err != nil {
		t.Fatalf("another name must not wait: %v", err)
	}
	other()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := locks.lock(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting ends with %v, want the context's end", err)
	}
	acquired := make(chan func())
	go func() {
		next, err := locks.lock(context.WithoutCancel(ctx), "a")
		if err != nil {
			t.Error(err)
		}
		acquired <- next
	}()
	select {
	case <-acquired:
		t.Fatal("two hold one name")
	default:
	}
	unlock()
	(<-acquired)()
	if len(locks.locks) != 0 {
		t.Errorf("%d locks are kept for names that nobody uses", len(locks.locks))
	}
}
