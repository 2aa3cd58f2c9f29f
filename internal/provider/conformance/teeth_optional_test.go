package conformance_test

import (
	"context"

	"github.com/go-logr/logr"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

func brokenOthers() map[string]defect {
	return map[string]defect{
		"tells another ID before": {
			breaks: "R2.7.1",
			spoil: func(b *broken) {
				b.idFor = func(req provider.CreateRequest) (string, error) {
					id, err := b.Provider.IDFor(req)
					if err == nil {
						id += "-x"
					}
					return id, err
				}
			},
		},
		"watches for ever": {
			breaks: "R2.8.1",
			spoil: func(b *broken) {
				b.watch = func(ctx context.Context) (<-chan string, error) {
					return b.Provider.Watch(context.WithoutCancel(ctx))
				}
			},
		},
		"guards nothing": {
			breaks: "R2.11.3",
			spoil: func(b *broken) {
				b.guard = func(at provider.Placement) ([]string, error) {
					_, err := b.Provider.GuardedDestinations(at)
					return nil, err
				}
			},
		},
		"guards what is no address": {
			breaks: "R2.11.2",
			spoil: func(b *broken) {
				b.guard = func(at provider.Placement) ([]string, error) {
					guarded, err := b.Provider.GuardedDestinations(at)
					return append(guarded, "the hypervisor"), err
				}
			},
		},
		"calls the backend when it is built": {
			breaks: "R2.1.9",
			spoil: func(b *broken) {
				_, _ = b.Provider.ListByTag(logr.NewContext(context.Background(), logr.Discard()))
			},
		},
	}
}
