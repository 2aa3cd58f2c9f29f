package kvm2

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// checkLimit bounds the check of one host, whatever the host does: the limit of a connection and of
// three calls.
const checkLimit = 100 * time.Second

// filePools are the pool types whose volumes are files, which a qcow2 overlay needs.
var filePools = []string{"dir", "fs", "netfs"}

// Check asks every host at the same time, each on a connection that is made for it and closed again,
// and gives one result per host in the configuration's order.
func (p *Provider) Check(ctx context.Context) []provider.HostCheck {
	ctx, log := p.begin(ctx, "check")
	results := make([]provider.HostCheck, len(p.config.Hosts))
	var hosts sync.WaitGroup
	for i, host := range p.config.Hosts {
		hosts.Go(func() { results[i] = p.checkHost(ctx, host) })
	}
	hosts.Wait()
	for _, r := range results {
		log.V(1).Info("host checked", "host", r.Host, "ready", r.Ready, "reason", r.Reason, "latency", r.Latency.String())
	}
	return results
}

func (p *Provider) checkHost(ctx context.Context, host provider.KVMHost) provider.HostCheck {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	started := time.Now()
	details, err := p.inspect(ctx, host)
	result := provider.HostCheck{Host: host.Name, Details: details, Latency: time.Since(started)}
	if err != nil {
		err = p.failed(ctx, classifyInCreate, "check host "+host.Name, err)
		result.Reason, result.Message = provider.ReasonOf(err), err.Error()
		return result
	}
	result.Ready, result.Reason = true, provider.ReasonReady
	result.Message = fmt.Sprintf("host %s can take instances", host.Name)
	return result
}

// inspect asks what a Create needs: the way in, libvirt, and a pool of files that is active. Details
// are what was learnt before the first problem.
func (p *Provider) inspect(ctx context.Context, host provider.KVMHost) ([]provider.Detail, error) {
	details := []provider.Detail{{Key: "user", Value: host.User}}
	c, err := p.hosts.dedicated(ctx, host.Name)
	if err != nil {
		return details, err
	}
	defer func() { _ = c.Close() }() // the answers are in; nothing depends on a clean end
	hostDetails, err := inspectLibvirt(ctx, c)
	details = append(details, hostDetails...)
	if err != nil {
		return details, err
	}
	poolDetails, err := inspectPool(ctx, c, host.Pool)
	return append(details, poolDetails...), err
}

func inspectLibvirt(ctx context.Context, c backend) ([]provider.Detail, error) {
	version, err := c.ConnectGetLibVersion(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for libvirt's version: %w", err)
	}
	hostname, err := c.ConnectGetHostname(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for the host's name: %w", err)
	}
	return []provider.Detail{{Key: "hostname", Value: clip(hostname)}, {Key: "libvirtVersion", Value: versionText(version)}}, nil
}

func inspectPool(ctx context.Context, c backend, name string) ([]provider.Detail, error) {
	details := []provider.Detail{{Key: "pool", Value: name}}
	p, err := c.StoragePoolLookupByName(ctx, name)
	if err != nil {
		return details, fmt.Errorf("look up pool %s: %w", name, err)
	}
	info, err := c.StoragePoolGetInfo(ctx, p)
	if err != nil {
		return details, fmt.Errorf("read pool %s: %w", name, err)
	}
	details = append(details, provider.Detail{Key: "poolState", Value: poolStateName(info.State)})
	if libvirt.StoragePoolState(info.State) != libvirt.StoragePoolRunning {
		return details, provider.Errorf(provider.ErrTransient, provider.ReasonPoolNotActive,
			"pool %s is %s: start it with virsh pool-start %s, and for good with virsh pool-autostart %s", name, poolStateName(info.State), name, name)
	}
	details = append(details,
		provider.Detail{Key: "poolCapacityGiB", Value: gib(info.Capacity)},
		provider.Detail{Key: "poolAvailableGiB", Value: gib(info.Available)})
	return details, checkPoolType(ctx, c, p)
}

func checkPoolType(ctx context.Context, c backend, p pool) error {
	doc, err := c.StoragePoolGetXMLDesc(ctx, p)
	if err != nil {
		return fmt.Errorf("read pool %s: %w", p.Name, err)
	}
	var desc libvirtxml.StoragePool
	if err := desc.Unmarshal(doc); err != nil {
		return fmt.Errorf("read pool %s: %w", p.Name, err)
	}
	if !slices.Contains(filePools, desc.Type) {
		return provider.Errorf(provider.ErrPermanent, provider.ReasonPoolUnsupported,
			"pool %s is of type %s, and disks here are files: use a pool of type %s", p.Name, clip(desc.Type), strings.Join(filePools, ", "))
	}
	return nil
}

// versionText spells libvirt's version number, major*1000000 + minor*1000 + release.
func versionText(v uint64) string {
	return fmt.Sprintf("%d.%d.%d", v/1_000_000, v/1000%1000, v%1000)
}

// gib gives a size in GiB with one decimal.
func gib(bytes uint64) string { return fmt.Sprintf("%.1f", float64(bytes)/(1<<30)) }

// poolStateName is virsh's word for a pool's state.
func poolStateName(state uint8) string {
	switch libvirt.StoragePoolState(state) {
	case libvirt.StoragePoolInactive:
		return "inactive"
	case libvirt.StoragePoolBuilding:
		return "building"
	case libvirt.StoragePoolRunning:
		return "running"
	case libvirt.StoragePoolDegraded:
		return "degraded"
	case libvirt.StoragePoolInaccessible:
		return "inaccessible"
	}
	return fmt.Sprintf("in state %d", state)
}
