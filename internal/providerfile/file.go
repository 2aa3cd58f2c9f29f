package providerfile

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// File is a providers file that is in use. It is a Runnable of the manager, in every replica.
type File struct {
	// Path of the file. A ConfigMap is mounted as a directory: with subPath it would never change.
	Path string
	Set  *provider.Set
	// Every is the time between two looks. The file is read, not watched: reading a small file misses
	// no change, whatever file system and symbolic links it is reached through.
	Every time.Duration
	// Changed is called after a change was taken over, with the entries that it concerns, or after it
	// turned out that it cannot be.
	Changed func(entries []string)
	Log     logr.Logger

	mu   sync.Mutex
	seen []byte
	err  error
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: a replica that may lead next is ready
// with the present entries.
func (f *File) NeedLeaderElection() bool { return false }

// Load reads the file for the first time. Without entries there is nothing to work with: the error says
// what is wrong with the file.
func (f *File) Load() error {
	_, err := f.look()
	return err
}

// Start looks until ctx ends.
func (f *File) Start(ctx context.Context) error {
	ticker := time.NewTicker(f.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			f.refresh()
		}
	}
}

// refresh takes a change over, and tells of it.
func (f *File) refresh() {
	before := f.Err()
	entries, err := f.look()
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		f.Log.Error(err, "the providers file cannot be used: the entries stay as they were", "file", f.Path)
	case err != nil:
		return
	case before != nil || len(entries) > 0:
		f.Log.Info("the providers file was read again", "file", f.Path, "changedEntries", entries)
	default:
		return
	}
	if f.Changed != nil {
		f.Changed(entries)
	}
}

// Err says why the file as it is now is not what is in use; nil when it is.
func (f *File) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// look reads the file and takes it over if it changed. A file that cannot be used changes nothing.
func (f *File) look() ([]string, error) {
	data, err := read(f.Path)
	if err == nil && f.seen != nil && bytes.Equal(data, f.seen) {
		return nil, f.note(nil)
	}
	if err != nil {
		return nil, f.note(fmt.Errorf("read the providers file: %w", err))
	}
	config, err := provider.Load(data)
	if err != nil {
		return nil, f.note(fmt.Errorf("providers file %s: %w", f.Path, err))
	}
	f.seen = data
	changed := f.Set.Apply(config)
	f.tell(config, changed)
	return changed, f.note(nil)
}

func (f *File) note(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	return err
}

// tell logs what is wrong with single entries. One without a usable name has no ProviderHealth to say it.
func (f *File) tell(config provider.Config, changed []string) {
	for _, name := range changed {
		if _, err := f.Set.Provider(name); err != nil && slices.Contains(f.Set.Names(), name) {
			f.Log.Error(err, "an entry of the providers file cannot be used", "file", f.Path, "entry", name)
		}
	}
	for _, broken := range config.Broken {
		if broken.Name == "" {
			f.Log.Error(broken, "an entry of the providers file cannot be used", "file", f.Path, "index", broken.Index)
		}
	}
}

// read reads at most one byte more than a providers file may have: provider.Load refuses it then.
func read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, provider.MaxConfig+1))
}
