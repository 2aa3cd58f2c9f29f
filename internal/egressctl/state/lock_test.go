package state_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

func TestLock_oneHolderAtATime(t *testing.T) {
	dir := open(t, t.TempDir())
	var inside, most atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			unlock, err := dir.Lock(t.Context(), "kvm2-home", "berlin-1", func() {})
			if err != nil {
				t.Error(err)
				return
			}
			if n := inside.Add(1); n > most.Load() {
				most.Store(n)
			}
			inside.Add(-1)
			if err := unlock(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if most.Load() != 1 {
		t.Errorf("%d holders at once, want one", most.Load())
	}
	left, err := os.ReadDir(filepath.Join(dir.Path(), "locks"))
	if err != nil || len(left) != 0 {
		t.Errorf("lock files %v are left behind (%v)", left, err)
	}
}

func TestLock_anotherInstanceIsFree(t *testing.T) {
	dir := open(t, t.TempDir())
	for _, name := range []string{"berlin-1", "berlin-2"} {
		unlock, err := dir.Lock(t.Context(), "kvm2-home", name, func() { t.Errorf("%s had to wait", name) })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unlock(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestLock_waitingEndsWithTheContext(t *testing.T) {
	dir := open(t, t.TempDir())
	unlock, err := dir.Lock(t.Context(), "kvm2-home", "berlin-1", func() {})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := dir.Lock(ctx, "kvm2-home", "berlin-1", cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled wait gave %v, want context.Canceled", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
}
