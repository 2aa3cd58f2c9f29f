package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
)

// Owner gives this installation's identity and makes it, at random, on first use. However many
// egressctl start at once, they all get the same one. An identity that got lost while instances are
// recorded is an error: a new one could not touch them.
func (d *Dir) Owner(ctx context.Context) (owner string, err error) {
	unlock, err := lockFile(ctx, filepath.Join(d.locks(), ".owner"), func() {})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, unlock()) }()

	path := filepath.Join(d.path, "owner")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return d.makeOwner(path)
	}
	if err != nil {
		return "", fmt.Errorf("read this installation's identity: %w", err)
	}
	owner = strings.TrimSpace(string(data))
	if uuid.Validate(owner) != nil {
		return "", fmt.Errorf("%s holds no identity: put the right one back, as a new one could not touch the instances made with it", path)
	}
	return owner, nil
}

func (d *Dir) makeOwner(path string) (string, error) {
	names, err := d.names()
	if err != nil {
		return "", err
	}
	if len(names) > 0 {
		return "", fmt.Errorf("%s is missing while instances are recorded beside it: put it back, as a new identity could not touch them", path)
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return "", fmt.Errorf("make this installation's identity: %w", err)
	}
	if err := writeFile(path, []byte(id.String()+"\n")); err != nil {
		return "", fmt.Errorf("keep this installation's identity: %w", err)
	}
	return id.String(), nil
}
