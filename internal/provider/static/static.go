// Package static leases forward proxies that exist already. An instance is the lease of one endpoint; it is a file in
// a directory that all share who lease the same endpoints.
//
// A lease has two names, of one file: endpoints/<address>_<port>.json, which keeps everybody else from the endpoint,
// and instances/<zone>_<name>.json, which keeps the instance from having two. Both are taken with link(2), the
// endpoint's first. An instance runs as long as both say the same random token; so no two can run on one endpoint,
// and none on two, whatever stops where. docs/static-provider-spec.md has the steps.
package static

import (
	"context"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Provider leases the endpoints of one entry.
type Provider struct {
	name   string
	owner  string
	config provider.StaticConfig
	zones  []string
	store  store
	log    logr.Logger
	now    func() time.Time
	turns  turns
}

var _ interface {
	provider.Provider
	provider.Checker
	provider.Identifier
	provider.Preconfigured
} = (*Provider)(nil)

// New is the factory of type static. It looks at no file and connects to nothing (R6.5).
func New(entry provider.Entry, opts provider.Options) (provider.Provider, error) {
	if entry.Static == nil {
		return nil, provider.Errorf(provider.ErrPermanent, provider.ReasonInvalidConfig, "the entry has no static block")
	}
	return build(entry.Name, *entry.Static, opts, newLimited(directory{entry.Static.LeaseDirectory}, entry.Static.Zones())), nil
}

// build makes a provider over a store.
func build(name string, config provider.StaticConfig, opts provider.Options, s store) *Provider {
	return &Provider{
		name: name, owner: opts.Owner, config: config, zones: config.Zones(), store: s, log: opts.Log, now: time.Now,
	}
}

// configured reports whether the entry has the zone.
func (p *Provider) configured(zone string) bool { return slices.Contains(p.zones, zone) }

// Preconfigured implements provider.Preconfigured: the proxies exist already.
func (p *Provider) Preconfigured() {}

// finish ends a method: its error gets the configured name (R8.1.3), and its outcome one line (R8.4.4).
func (p *Provider) finish(ctx context.Context, method, instance string, start time.Time, err error) error {
	err = provider.Wrap(p.name, err)
	outcome := "ok"
	if err != nil {
		outcome = provider.ReasonOf(err)
	}
	log, noLogger := logr.FromContext(ctx)
	if noLogger != nil {
		log = p.log
	}
	log.V(1).Info("static."+method, "instance", instance, "duration", time.Since(start), "outcome", outcome)
	return err
}
