package egressctl

import (
	"context"
	"sync"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// looksAtOnce bounds the instances that are asked about at the same time.
const looksAtOnce = 8

// addressed asks for what a provider's list leaves out: it never waits for guests, so it has no
// addresses, and a running instance stands in it as Provisioning. An instance that cannot be read now
// stays as the list has it.
func addressed(ctx context.Context, p provider.Provider, instances []provider.Instance) []provider.Instance {
	out := make([]provider.Instance, len(instances))
	slots := make(chan struct{}, looksAtOnce)
	var wg sync.WaitGroup
	for i, listed := range instances {
		out[i] = listed
		if listed.State != provider.StateProvisioning {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if read, err := p.Get(ctx, listed.ID); err == nil {
				out[i] = read
			}
		})
	}
	wg.Wait()
	return out
}
