package kvm2

import (
	"context"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// refresh waits a little for volume jobs of others, which libvirt does not refresh a pool beside.
func (i *images) refresh(ctx context.Context, c backend, p pool) error {
	const attempts = 5
	for n := 1; ; n++ {
		err := c.StoragePoolRefresh(ctx, p)
		if err == nil || n == attempts || provider.ReasonOf(classify("", err)) != reasonBusy {
			return err
		}
		if err := i.pause(ctx); err != nil {
			return err
		}
	}
}

// pause waits for the next look at something that others do.
func (i *images) pause(ctx context.Context) error {
	timer := time.NewTimer(i.limits.poll)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
