package egressctl

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// configuration is the providers file of this run.
type configuration struct {
	path string
	provider.Config
}

// loadConfig reads the providers file. A broken entry does not stop the others.
func (r *runner) loadConfig() (*configuration, error) {
	path, err := r.findConfig()
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fail(CodeUsage, "read the providers file: %w", err)
	}
	config, err := provider.Load(data)
	if err != nil {
		return nil, fail(CodeUsage, "%s: %w", path, err)
	}
	return &configuration{path: path, Config: config}, nil
}

// findConfig gives the path of --config or EGRESSCTL_CONFIG, else the first file that exists.
func (r *runner) findConfig() (string, error) {
	if r.configPath != "" {
		return r.configPath, nil
	}
	if path := r.Getenv("EGRESSCTL_CONFIG"); path != "" {
		return path, nil
	}
	places := []string{"providers.yaml"}
	if base := r.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(base) {
		places = append(places, filepath.Join(base, "egressctl", "providers.yaml"))
	} else if home := r.Getenv("HOME"); filepath.IsAbs(home) {
		places = append(places, filepath.Join(home, ".config", "egressctl", "providers.yaml"))
	}
	for _, path := range places {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
	}
	return "", fail(CodeUsage, "there is no providers file at %s: give --config or EGRESSCTL_CONFIG", listing(places))
}

// choose gives the entry of that name; without a name the only entry, else the only one of likely().
func (c *configuration) choose(name string, likely func() []string) (provider.Entry, error) {
	if name == "" {
		names := c.names()
		if len(names) != 1 {
			if found := likely(); len(found) == 1 {
				names = found
			}
		}
		if len(names) != 1 {
			return provider.Entry{}, fail(CodeUsage, "--entry is needed: %s has %s", c.path, listing(names))
		}
		name = names[0]
	}
	entry, err := c.Entry(name)
	if err != nil {
		return provider.Entry{}, fail(CodeUsage, "%s: %w", c.path, err)
	}
	return entry, nil
}

// selected gives the entry of that name, or all that can be used, and the broken ones among them.
func (c *configuration) selected(name string) ([]provider.Entry, []provider.BrokenEntry, error) {
	if name == "" {
		return c.Providers, c.Broken, nil
	}
	for _, b := range c.Broken {
		if b.Name == name {
			return nil, []provider.BrokenEntry{b}, nil
		}
	}
	entry, err := c.choose(name, nil)
	if err != nil {
		return nil, nil, err
	}
	return []provider.Entry{entry}, nil, nil
}

// names of all entries that have one, the broken ones last.
func (c *configuration) names() []string {
	var out []string
	for _, e := range c.Providers {
		out = append(out, e.Name)
	}
	for _, b := range c.Broken {
		if b.Name != "" {
			out = append(out, b.Name)
		}
	}
	return out
}
