package static

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Folders of the lease directory.
const (
	folderEndpoints = "endpoints" // a lease per endpoint
	folderInstances = "instances" // its second name, by zone and instance
	folderTemporary = "tmp"       // what is not yet, or no longer, a lease
)

const (
	dirMode  = 0o700
	fileMode = 0o600
	// maxLease is more than any lease has.
	maxLease = 64 << 10
	// abandoned is the age, by the file system's clock, at which a temporary file is nobody's.
	abandoned = time.Hour
	// dialLimit is the longest that an endpoint may take to accept a connection.
	dialLimit = 5 * time.Second
)

// directory is the store on a real file system. A name is taken with link(2), which is atomic and refuses a name
// that is taken, also between two machines on one NFS export; so there is no lock that a dead process could keep.
type directory struct{ root string }

func (d directory) path(file string) string { return filepath.Join(d.root, file) }

// Read implements store.
func (d directory) Read(_ context.Context, _, file string) ([]byte, error) {
	content, err := d.read(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return content, err
	}
	// Gone, or the whole directory is: only the first proves anything (R2.3.3).
	if err := d.isThere(); err != nil {
		return nil, err
	}
	return nil, errAbsent
}

// isThere asks for the folder that the user makes: an empty mount point has none.
func (d directory) isThere() error {
	_, err := os.Stat(d.path(folderEndpoints))
	if errors.Is(err, fs.ErrNotExist) {
		return errNoDirectory
	}
	return err
}

// read neither follows a link nor waits at a pipe that somebody put there.
func (d directory) read(file string) ([]byte, error) {
	f, err := os.OpenFile(d.path(file), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() || info.Size() > maxLease {
		return nil, errUnreadable
	}
	return io.ReadAll(io.LimitReader(f, maxLease))
}

// Claims implements store.
func (d directory) Claims(context.Context, string) ([]string, error) {
	entries, err := os.ReadDir(d.path(folderEndpoints))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoDirectory
	} else if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, filepath.Join(folderEndpoints, e.Name()))
	}
	return names, nil
}

// Make implements store: a temporary file, fsync, link(2) to the final name.
func (d directory) Make(_ context.Context, _, file string, content []byte) error {
	temp, err := d.writeTemporary(content)
	if errors.Is(err, fs.ErrNotExist) {
		return errNoDirectory
	} else if err != nil {
		return err
	}
	defer os.Remove(temp) // a later Make sweeps what stays
	err = os.Link(temp, d.path(file))
	if errors.Is(err, fs.ErrExist) {
		// NFS may repeat a link whose answer was lost, and then finds its own. A lease has a random part.
		if got, rerr := d.read(file); rerr != nil || !bytes.Equal(got, content) {
			return errExists
		}
	} else if err != nil {
		return err
	}
	return d.sync(filepath.Dir(file))
}

// Prepare implements store. The folder of the leased endpoints is the user's to make: a directory that is not mounted
// is then missed, and not made anew.
func (d directory) Prepare(context.Context, string) error {
	if err := d.isThere(); err != nil {
		return err
	}
	for _, folder := range []string{folderTemporary, folderInstances} {
		if err := os.Mkdir(d.path(folder), dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return d.sync(".")
}

// writeTemporary writes a whole file under a name that nobody looks for, and sweeps what others left there.
func (d directory) writeTemporary(content []byte) (path string, err error) {
	path = d.temporaryName()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return "", err
	}
	_, err = f.Write(content)
	info, serr := f.Stat()
	if err = errors.Join(err, serr, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(path))
	}
	d.sweep(info.ModTime())
	return path, nil
}

func (d directory) temporaryName() string {
	const random = 16
	name := make([]byte, random)
	_, _ = rand.Read(name) // it never fails (crypto/rand)
	return filepath.Join(d.root, folderTemporary, hex.EncodeToString(name))
}

// sweep removes temporary files that a killed process left. now is the file system's clock: the machines that
// share it may differ.
func (d directory) sweep(now time.Time) {
	entries, err := os.ReadDir(d.path(folderTemporary))
	if err != nil {
		return // the next one sweeps
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > abandoned {
			_ = os.Remove(filepath.Join(d.path(folderTemporary), e.Name())) // the next one sweeps
		}
	}
}

// Link implements store.
func (d directory) Link(_ context.Context, _, from, to string) error {
	err := os.Link(d.path(from), d.path(to))
	switch {
	case errors.Is(err, fs.ErrExist):
		return errExists
	case errors.Is(err, fs.ErrNotExist):
		return errAbsent
	case err != nil:
		return err
	}
	return d.sync(filepath.Dir(to))
}

// Replace implements store.
func (d directory) Replace(_ context.Context, _, file string, from, to []byte) error {
	if got, err := d.read(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	} else if !bytes.Equal(got, from) {
		return errChanged
	}
	temp, err := d.writeTemporary(to)
	if err != nil {
		return err
	}
	if err := os.Rename(temp, d.path(file)); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return d.sync(filepath.Dir(file))
}

// Remove implements store. There is no unlink(2) on a condition, so the file is moved aside first, under a name that
// is nobody else's, and looked at there: what turns out to be another's lease goes back.
func (d directory) Remove(ctx context.Context, zone, file string, content []byte) error {
	got, err := d.read(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !bytes.Equal(got, content):
		return errChanged
	}
	aside := d.temporaryName()
	err = os.Rename(d.path(file), aside)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(d.path(file)); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return errors.Join(errChanged, d.Prepare(ctx, zone)) // somebody removed the folder tmp: the next call has it
	} else if err != nil {
		return err
	}
	rel, err := filepath.Rel(d.root, aside)
	if err != nil {
		return err
	}
	if got, err = d.read(rel); err != nil || !bytes.Equal(got, content) {
		return errors.Join(errChanged, err, os.Link(aside, d.path(file)), os.Remove(aside))
	}
	if err := os.Remove(aside); err != nil {
		return err
	}
	return d.sync(filepath.Dir(file))
}

// sync makes what happened to names in a folder last.
func (d directory) sync(folder string) error {
	f, err := os.Open(d.path(folder))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Writable implements store by access(2), which knows modes, read-only mounts and users.
func (d directory) Writable(context.Context, string) error {
	if err := d.isThere(); err != nil {
		return err
	}
	if err := unix.Access(d.root, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("write in %s: %w", d.root, err)
	}
	for _, folder := range []string{folderTemporary, folderInstances, folderEndpoints} {
		err := unix.Access(d.path(folder), unix.W_OK|unix.X_OK)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("write in %s: %w", d.path(folder), err)
		}
	}
	return nil
}

// Dial implements store.
func (d directory) Dial(ctx context.Context, _, address string) error {
	dialer := net.Dialer{Timeout: dialLimit}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}
