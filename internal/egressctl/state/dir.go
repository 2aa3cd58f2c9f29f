// Package state keeps what egressctl must remember between runs: this installation's identity, and for
// each instance what was asked for and what was rendered from it, so that a run after a crash sends
// the same bytes. Everything in it is private to the user: directories 0700, files 0600.
//
// Layout, under the state directory:
//
//	owner                           the identity, one line
//	instances/<entry>_<name>.json   one Record
//	locks/<entry>_<name>            held while an instance is being created or deleted
//
// Several egressctl may use one directory at once.
package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

const (
	dirMode  = 0o700
	fileMode = 0o600
)

// Dir is a state directory.
type Dir struct {
	path string
}

// DefaultPath gives $XDG_STATE_HOME/egressctl, else $HOME/.local/state/egressctl. Relative values of
// XDG_STATE_HOME are ignored, as the XDG base directory specification demands.
func DefaultPath(getenv func(string) string) (string, error) {
	if base := getenv("XDG_STATE_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "egressctl"), nil
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "egressctl"), nil
	}
	return "", errors.New("there is no place for the state, as neither HOME nor XDG_STATE_HOME is set: give --state-dir or EGRESSCTL_STATE_DIR")
}

// Open uses the directory at path and makes it where it is missing.
func Open(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find the state directory: %w", err)
	}
	d := &Dir{path: path}
	for _, sub := range []string{path, d.instances(), d.locks()} {
		if err := os.MkdirAll(sub, dirMode); err != nil {
			return nil, fmt.Errorf("make the state directory: %w", err)
		}
	}
	return d, nil
}

// Path of the directory, absolute.
func (d *Dir) Path() string { return d.path }

func (d *Dir) instances() string { return filepath.Join(d.path, "instances") }
func (d *Dir) locks() string     { return filepath.Join(d.path, "locks") }

// safeName keeps names inside their directory. An underscore is not allowed, so that entry and name
// can be told apart.
var safeName = regexp.MustCompile(`^[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?$`)

// key is the file name that belongs to an instance.
func key(entry, name string) (string, error) {
	for _, part := range []string{entry, name} {
		if !safeName.MatchString(part) {
			return "", fmt.Errorf("%q cannot be used as a name: letters, digits, '-' and '.' only", part)
		}
	}
	return entry + "_" + name, nil
}
