package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// lockRetry is how often a held lock is tried again: the kernel has no wait that ends with a ctx.
const lockRetry = 100 * time.Millisecond

// Lock waits until no other egressctl works on the instance, or ctx ends. The kernel drops the lock
// when its holder dies. waiting is called once, before the first wait, when the lock is held.
func (d *Dir) Lock(ctx context.Context, entry, name string, waiting func()) (unlock func() error, err error) {
	k, err := key(entry, name)
	if err != nil {
		return nil, err
	}
	return lockFile(ctx, filepath.Join(d.locks(), k), waiting)
}

func lockFile(ctx context.Context, path string, waiting func()) (func() error, error) {
	for {
		lock := flock.New(path, flock.SetPermissions(fileMode))
		got, err := lock.TryLock()
		if err == nil && !got {
			waiting()
			waiting = func() {}
			_, err = lock.TryLockContext(ctx, lockRetry)
		}
		if err != nil {
			return nil, fmt.Errorf("lock %s: %w", path, errors.Join(err, lock.Close()))
		}
		if stillThere(lock) {
			return func() error { return unlockFile(lock) }, nil
		}
		if err := lock.Close(); err != nil {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
	}
}

// unlockFile removes the file while the lock is held, so that nothing is left behind.
func unlockFile(lock *flock.Flock) error {
	return errors.Join(os.Remove(lock.Path()), lock.Close())
}

// stillThere says whether the locked file is the one that has the path now: the holder before us may
// have removed it, and then the next one would lock another file.
func stillThere(lock *flock.Flock) bool {
	held, err := lock.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(lock.Path())
	return err == nil && os.SameFile(held, named)
}
