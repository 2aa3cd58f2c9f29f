package conformance_test

import (
	"context"
	"slices"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

func brokenLists() map[string]defect {
	change := func(edit func(*broken, []provider.Instance) []provider.Instance) func(*broken) {
		return func(b *broken) {
			b.list = func(ctx context.Context) ([]provider.Instance, error) {
				list, err := b.Provider.ListByTag(ctx)
				if err == nil {
					list = edit(b, list)
				}
				return list, err
			}
		}
	}
	without := func(match func(provider.Instance) bool) func(*broken) {
		return change(func(_ *broken, list []provider.Instance) []provider.Instance { return slices.DeleteFunc(list, match) })
	}
	return map[string]defect{
		"leaves an unreachable host out": {
			breaks: "R2.5.4",
			spoil: func(b *broken) {
				b.list = func(ctx context.Context) ([]provider.Instance, error) {
					list, err := b.Provider.ListByTag(ctx)
					if provider.ReasonOf(err) == provider.ReasonUnreachable {
						return list, nil
					}
					return list, err
				}
			},
		},
		"leaves out what is off": {
			breaks: "R2.5.1",
			spoil:  without(func(i provider.Instance) bool { return i.State == provider.StateStopped }),
		},
		"leaves out what is half made": {
			breaks: "R2.5.1 R2.5.6",
			spoil:  without(func(i provider.Instance) bool { return i.UID == "" }),
		},
		"lists an instance twice": {
			breaks: "R2.5.1",
			spoil: change(func(_ *broken, list []provider.Instance) []provider.Instance {
				if len(list) == 10 {
					list = append(list, list[0])
				}
				return list
			}),
		},
		"lists another owner's instances": {
			breaks: "R2.5.3",
			spoil: change(func(b *broken, list []provider.Instance) []provider.Instance {
				for _, seen := range b.Backend().Instances() {
					if seen.Marked && strings.HasPrefix(seen.Owner, "conformance-") {
						list = append(list, provider.Instance{ID: seen.ID, Name: seen.Name, State: provider.StateProvisioning})
					}
				}
				return list
			}),
		},
		"turns the hosts round": {
			breaks: "R2.5.7",
			spoil: change(func(_ *broken, list []provider.Instance) []provider.Instance {
				slices.Reverse(list)
				return list
			}),
		},
		"gives IDs of its own": {
			breaks: "R2.5.8",
			spoil: change(func(_ *broken, list []provider.Instance) []provider.Instance {
				for i := range list {
					list[i].ID = strings.TrimPrefix(list[i].ID, "zones/")
				}
				return list
			}),
		},
		"fails for an instance that vanishes": {
			breaks: "R2.5.5",
			spoil: func(b *broken) {
				b.list = func(ctx context.Context) ([]provider.Instance, error) {
					before := len(b.Backend().Instances())
					list, err := b.Provider.ListByTag(ctx)
					if err == nil && len(b.Backend().Instances()) < before {
						return nil, errorOf(provider.ErrTransient, provider.ReasonBackendError)
					}
					return list, err
				}
			},
		},
		"says Running of what has no address": {
			breaks: "R2.5.10",
			spoil: change(func(_ *broken, list []provider.Instance) []provider.Instance {
				for i := range list {
					if list[i].State == provider.StateProvisioning && list[i].UID != "" {
						list[i].State = provider.StateRunning
					}
				}
				return list
			}),
		},
	}
}
