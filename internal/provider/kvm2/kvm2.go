package kvm2

import (
	"context"
	"os"
	"time"

	"github.com/go-logr/logr"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Provider makes instances on the libvirt/KVM hosts of one entry. A host is a zone.
type Provider struct {
	name   string
	owner  string
	log    logr.Logger
	config provider.KVMConfig
	hosts  *hosts
	images *images
	virt   *virtualizations
	// names serialises Create and Delete of one name, so that neither sees the other half done.
	names *nameLocks
}

var (
	_ provider.Provider     = (*Provider)(nil)
	_ provider.Checker      = (*Provider)(nil)
	_ provider.Identifier   = (*Provider)(nil)
	_ provider.Renderer     = (*Provider)(nil)
	_ provider.Guarder      = (*Provider)(nil)
	_ provider.Closer       = (*Provider)(nil)
	_ provider.MACAddresser = (*Provider)(nil)
	_ provider.ImageKeeper  = (*Provider)(nil)
	_ provider.Diagnoser    = (*Provider)(nil)

	_ provider.GuestReporter = (*Provider)(nil)
	_ provider.Consoler      = (*Provider)(nil)
)

// New builds the provider of an entry of type kvm2. It makes no connection. SSH files that cannot be
// read yet are a warning only: they are read on every dial, and a Secret may be mounted later.
func New(entry provider.Entry, opts provider.Options) (provider.Provider, error) {
	if entry.KVM2 == nil {
		return nil, provider.Wrap(entry.Name, provider.Errorf(provider.ErrPermanent, provider.ReasonInvalidConfig,
			"the entry has no kvm2 block"))
	}
	if opts.Owner == "" {
		return nil, provider.Wrap(entry.Name, provider.Errorf(provider.ErrPermanent, provider.ReasonInvalidConfig,
			"the installation has no owner: whatever stands on a host would be taken for ours"))
	}
	warnUnreadable(opts.Log.WithValues("provider", entry.Name), entry.KVM2)
	return newProvider(entry, opts, newSSHDialer(entry.KVM2, opts.Log.WithValues("provider", entry.Name))), nil
}

// newProvider is New with the dialer given, which is all that tests replace.
func newProvider(entry provider.Entry, opts provider.Options, d dialer) *Provider {
	hosts := newHosts(entry.KVM2.Hosts, d)
	return &Provider{
		name:   entry.Name,
		owner:  opts.Owner,
		log:    opts.Log,
		config: *entry.KVM2,
		hosts:  hosts,
		images: newImages(hosts),
		virt:   &virtualizations{},
		names:  &nameLocks{},
	}
}

// warnUnreadable says at the start what would otherwise show at the first dial only.
func warnUnreadable(log logr.Logger, config *provider.KVMConfig) {
	for key, path := range map[string]string{"sshKeyFile": config.SSHKeyFile, "knownHostsFile": config.KnownHostsFile} {
		if path == "" {
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			log.Info("SSH file cannot be read yet; it is read again on every dial", "key", key, "path", path, "problem", err.Error())
			continue
		}
		if err := f.Close(); err != nil {
			log.V(2).Info("closing an SSH file", "key", key, "problem", err.Error())
		}
	}
}

// closeGrace is how long transfers may take to remove what they have written, before their
// connections are cut. What is left then is removed by the delete of the instance.
const closeGrace = 500 * time.Millisecond

// Close ends every transfer and connection. No other method is called afterwards.
func (p *Provider) Close() error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.images.Close()
	}()
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	select {
	case <-ended:
	case <-grace.C:
	}
	p.hosts.Close()
	<-ended
	return nil
}

// IDFor gives the ID that Create would return. It asks no backend.
func (p *Provider) IDFor(req provider.CreateRequest) (string, error) {
	plan, err := p.plan(req)
	if err != nil {
		return "", provider.Wrap(p.name, err)
	}
	return plan.id, nil
}

// MACFor gives the MAC of the instance that Create would make, so that an address can be reserved for
// it before.
func (p *Provider) MACFor(req provider.CreateRequest) string { return macFor(req.UID) }

// GuardedDestinations gives the hypervisor's address: an instance must not be a way to it.
func (p *Provider) GuardedDestinations(placement provider.Placement) ([]string, error) {
	host, err := p.zone(placement.Zone)
	if err != nil {
		return nil, provider.Wrap(p.name, err)
	}
	return []string{host.Address}, nil
}

// begin gives a call its logger, and puts it into ctx for the layers below.
func (p *Provider) begin(ctx context.Context, call string) (context.Context, logr.Logger) {
	log, err := logr.FromContext(ctx)
	if err != nil {
		log = p.log
	}
	log = log.WithValues("provider", p.name, "call", call)
	return logr.NewContext(ctx, log), log
}
