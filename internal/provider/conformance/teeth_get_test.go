package conformance_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/fake"
)

func brokenGets(forever <-chan struct{}) map[string]defect {
	change := func(edit func(*provider.Instance)) func(*broken) {
		return func(b *broken) {
			b.get = func(ctx context.Context, id string) (provider.Instance, error) {
				inst, err := b.Provider.Get(ctx, id)
				if err == nil {
					edit(&inst)
				}
				return inst, err
			}
		}
	}
	return map[string]defect{
		"gives NotFound when time is up": {
			breaks: "R2.3.3 R2.3.4 R8.1.6",
			spoil: func(b *broken) {
				b.get = func(ctx context.Context, id string) (provider.Instance, error) {
					inst, err := b.Provider.Get(ctx, id)
					if reason := provider.ReasonOf(err); ctx.Err() == nil && (reason == provider.ReasonTimeout || reason == provider.ReasonUnreachable) {
						err = errorOf(provider.ErrNotFound, provider.ReasonNotFound)
					}
					return inst, err
				}
			},
		},
		"takes an unknown error for final": {
			breaks: "R2.3.4 R8.1.5",
			spoil: func(b *broken) {
				b.get = func(ctx context.Context, id string) (provider.Instance, error) {
					inst, err := b.Provider.Get(ctx, id)
					if err != nil && strings.Contains(err.Error(), "4711") {
						err = errorOf(provider.ErrPermanent, provider.ReasonBackendError)
					}
					return inst, err
				}
			},
		},
		"takes a mark that it cannot read for none": {
			breaks: "R2.3.8",
			spoil: func(b *broken) {
				b.get = func(ctx context.Context, id string) (provider.Instance, error) {
					inst, err := b.Provider.Get(ctx, id)
					if err != nil && strings.Contains(err.Error(), "cannot be read") {
						err = errorOf(provider.ErrNotFound, provider.ReasonNotFound)
					}
					return inst, err
				}
			},
		},
		"shows another owner's instances": {
			breaks: "R2.3.7",
			spoil: func(b *broken) {
				b.get = func(ctx context.Context, id string) (provider.Instance, error) {
					inst, err := b.Provider.Get(ctx, id)
					if seen, ok := b.Backend().Look(id); ok && seen.Marked && seen.Owner != fake.DefaultOwner {
						return provider.Instance{ID: id, Name: seen.Name, UID: seen.UID, State: provider.StateProvisioning}, nil
					}
					return inst, err
				}
			},
		},
		"says Running without an address": {
			breaks: "R2.3.12",
			spoil: change(func(i *provider.Instance) {
				if i.State == provider.StateProvisioning && i.UID != "" {
					i.State = provider.StateRunning
				}
			}),
		},
		"says Running of what is off": {
			breaks: "R2.3.13",
			spoil: change(func(i *provider.Instance) {
				if i.State == provider.StateStopped {
					i.State = provider.StateRunning
				}
			}),
		},
		"says Running of what is half made": {
			breaks: "R2.3.14",
			spoil: change(func(i *provider.Instance) {
				if i.UID == "" {
					i.State = provider.StateRunning
				}
			}),
		},
		"reports loopback addresses": {
			breaks: "R2.3.16",
			spoil: change(func(i *provider.Instance) {
				i.Addresses = append([]string{"127.0.0.1"}, i.Addresses...)
			}),
		},
		"makes up the creation time": {
			breaks: "R2.3.18",
			spoil:  change(func(i *provider.Instance) { i.CreatedAt = time.Now().UTC() }),
		},
		"forgets the ref": {
			breaks: "R2.3.1",
			spoil:  change(func(i *provider.Instance) { i.Ref = "" }),
		},
		"changes what it looks at": {
			breaks: "R2.3.19",
			spoil: func(b *broken) {
				next := 0
				b.get = func(ctx context.Context, id string) (provider.Instance, error) {
					inst, err := b.Provider.Get(ctx, id)
					if err == nil && inst.State == provider.StateRunning && len(b.Backend().Instances()) == 1 {
						next++
						b.Backend().SetAddresses(id, fmt.Sprintf("198.19.0.%d", next%200+1))
					}
					return inst, err
				}
			},
		},
		"knows only what it made itself": {
			breaks: "R2.1.5",
			spoil: func(b *broken) {
				known := map[string]bool{}
				var mu sync.Mutex
				b.create = func(ctx context.Context, req provider.CreateRequest) (string, error) {
					id, err := b.Provider.Create(ctx, req)
					mu.Lock()
					defer mu.Unlock()
					known[id] = true
					return id, err
				}
				b.list = func(ctx context.Context) ([]provider.Instance, error) {
					list, err := b.Provider.ListByTag(ctx)
					mu.Lock()
					defer mu.Unlock()
					return slices.DeleteFunc(list, func(i provider.Instance) bool { return !known[i.ID] }), err
				}
			},
		},
		"goes on after the end of its context": {
			breaks: "R2.1.2 R2.1.4",
			spoil: func(b *broken) {
				b.get = func(ctx context.Context, id string) (provider.Instance, error) {
					if ctx.Err() == nil {
						ctx = context.WithoutCancel(ctx)
					}
					return b.Provider.Get(ctx, id)
				}
			},
		},
		"leaves a goroutine behind": {
			breaks: "R2.1.6",
			spoil: func(b *broken) {
				b.get = func(ctx context.Context, id string) (provider.Instance, error) {
					go func() { <-forever }()
					return b.Provider.Get(ctx, id)
				}
			},
		},
	}
}
