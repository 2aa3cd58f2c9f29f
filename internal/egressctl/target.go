package egressctl

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/state"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// target is one entry, ready for use.
type target struct {
	entry    provider.Entry
	checkURL string
	owner    string
	dir      *state.Dir
	provider provider.Provider
}

// open makes the target of a command for one instance: the entry of --entry, else the only one of the
// file, else the one under which name is recorded.
func (r *runner) open(ctx context.Context, name string) (*target, error) {
	conf, err := r.loadConfig()
	if err != nil {
		return nil, err
	}
	dir, err := r.openState()
	if err != nil {
		return nil, err
	}
	entry, err := conf.choose(r.entryName, func() []string { return recordedEntries(dir, name) })
	if err != nil {
		return nil, err
	}
	return r.build(ctx, conf, entry, dir)
}

// build makes the provider of an entry. It makes no connection.
func (r *runner) build(ctx context.Context, conf *configuration, entry provider.Entry, dir *state.Dir) (*target, error) {
	owner, err := dir.Owner(ctx)
	if err != nil {
		return nil, local(err)
	}
	p, err := r.Registry.New(entry, provider.Options{Owner: owner, Log: r.log})
	if err != nil {
		return nil, &failure{code: CodeUsage, err: err}
	}
	return &target{entry: entry, checkURL: conf.CheckURL, owner: owner, dir: dir, provider: p}, nil
}

// close ends the provider's connections.
func (t *target) close() error {
	if c, ok := provider.As[provider.Closer](t.provider); ok {
		return local(c.Close())
	}
	return nil
}

// request is what the provider is asked for.
func (t *target) request(rec *state.Record) provider.CreateRequest {
	return provider.CreateRequest{
		Name: rec.InstanceName, UID: rec.UID, Owner: t.owner, Ref: refPrefix + rec.Name,
		Placement: rec.Inputs.Placement, CloudInit: provider.Secret(rec.UserData),
	}
}

// place says where a record's instance stands.
func (t *target) place(rec *state.Record) place {
	return place{entry: t.entry.Name, host: rec.Inputs.Placement.Zone}
}

// load reads the record of an instance; nil where there is none.
func (t *target) load(name string) (*state.Record, error) {
	rec, err := t.dir.Load(t.entry.Name, name)
	if errors.Is(err, state.ErrNoRecord) {
		return nil, nil
	}
	return rec, local(err)
}

// recordedEntries gives the entries under which name is recorded. Records that cannot be read do not
// count: the user is asked to name the entry.
func recordedEntries(dir *state.Dir, name string) []string {
	records, _ := dir.List()
	var out []string
	for _, rec := range records {
		if rec.Name == name {
			out = append(out, rec.Entry)
		}
	}
	return out
}

// limited gives a command's context: with the logger, and ended after limit.
func (r *runner) limited(cmd *cobra.Command, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(logr.NewContext(cmd.Context(), r.log), limit)
}
