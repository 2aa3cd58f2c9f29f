package kvm2

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
)

// virtualizations remembers what each host can run, for as long as one connection lives: a libvirt
// that was restarted may have found KVM, and drops its connections when it restarts.
type virtualizations struct {
	mu     sync.Mutex
	known  map[string]knownVirtualization
	warned map[string]bool
}

type knownVirtualization struct {
	from conn
	virt virtualization
}

// of gives the best that the host can do, and warns once of a host without KVM.
func (v *virtualizations) of(ctx context.Context, c conn, host string) (virtualization, error) {
	if virt, ok := v.get(c, host); ok {
		return virt, nil
	}
	doc, err := c.ConnectGetCapabilities(ctx)
	if err != nil {
		return virtualization{}, fmt.Errorf("read the host's capabilities: %w", err)
	}
	virt, err := bestVirtualization(doc)
	if err != nil {
		return virtualization{}, err
	}
	if v.put(c, host, virt) {
		logr.FromContextOrDiscard(ctx).Info("the host has no usable KVM: its guests are emulated and many times slower; check /dev/kvm there",
			"host", host, "domainType", virt.Type)
	}
	return virt, nil
}

func (v *virtualizations) get(c conn, host string) (virtualization, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	k := v.known[host]
	return k.virt, k.from == c && c != nil
}

// put says whether to warn: on the first time that a host turns out to have no KVM.
func (v *virtualizations) put(c conn, host string, virt virtualization) (warn bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known == nil {
		v.known, v.warned = map[string]knownVirtualization{}, map[string]bool{}
	}
	v.known[host] = knownVirtualization{from: c, virt: virt}
	warn = virt.Type != virtKVM && !v.warned[host]
	v.warned[host] = virt.Type != virtKVM
	return warn
}
