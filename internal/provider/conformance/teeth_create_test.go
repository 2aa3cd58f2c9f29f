package conformance_test

import (
	"context"
	"errors"
	"slices"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/fake"
)

func brokenCreates() map[string]defect {
	return map[string]defect{
		"makes a second instance when it is called again": {
			breaks: "R2.2.2 R2.2.3 R2.2.4 R2.2.5",
			spoil: func(b *broken) {
				b.create = func(ctx context.Context, req provider.CreateRequest) (string, error) {
					seen, ok := b.Backend().Look(fake.ID(req.Placement.Zone, req.Name))
					if ok && seen.UID == req.UID && seen.Running && ctx.Err() == nil {
						req.Name += "b"
					}
					return b.Provider.Create(ctx, req)
				}
			},
		},
		"takes an instance with another UID for its own": {
			breaks: "R2.2.16",
			spoil: func(b *broken) {
				b.create = func(ctx context.Context, req provider.CreateRequest) (string, error) {
					id, err := b.Provider.Create(ctx, req)
					if at := fake.ID(req.Placement.Zone, req.Name); provider.ReasonOf(err) == provider.ReasonNameConflict && ours(b, at) {
						return at, nil
					}
					return id, err
				}
			},
		},
		"replaces what has no mark": {
			breaks: "R2.1.7 R2.2.14 R2.2.28",
			spoil: func(b *broken) {
				b.create = func(ctx context.Context, req provider.CreateRequest) (string, error) {
					at := fake.ID(req.Placement.Zone, req.Name)
					if seen, ok := b.Backend().Look(at); ok && !seen.Marked {
						b.Backend().Remove(at)
					}
					return b.Provider.Create(ctx, req)
				}
			},
		},
		"refuses a half-made instance": {
			breaks: "R2.2.17",
			spoil: func(b *broken) {
				b.create = func(ctx context.Context, req provider.CreateRequest) (string, error) {
					if seen, ok := b.Backend().Look(fake.ID(req.Placement.Zone, req.Name)); ok && seen.Owner == fake.DefaultOwner && seen.UID == "" {
						return "", errorOf(provider.ErrPermanent, provider.ReasonNameConflict)
					}
					return b.Provider.Create(ctx, req)
				}
			},
		},
		"does not start what is off": {
			breaks: "R2.2.9 R2.2.13",
			spoil: func(b *broken) {
				b.create = func(ctx context.Context, req provider.CreateRequest) (string, error) {
					at := fake.ID(req.Placement.Zone, req.Name)
					if seen, ok := b.Backend().Look(at); ok && seen.UID == req.UID && !seen.Running && ctx.Err() == nil {
						return at, nil
					}
					return b.Provider.Create(ctx, req)
				}
			},
		},
		"takes a wrong zone for a malformed request": {
			breaks: "R2.2.18 R2.7.3",
			spoil: func(b *broken) {
				b.create = func(ctx context.Context, req provider.CreateRequest) (string, error) {
					id, err := b.Provider.Create(ctx, req)
					if provider.ReasonOf(err) == provider.ReasonUnknownZone {
						err = errorOf(provider.ErrPermanent, provider.ReasonInvalidRequest)
					}
					return id, err
				}
			},
		},
		"asks the backend before it refuses a machine type": {
			breaks: "R2.2.19",
			spoil: func(b *broken) {
				b.create = func(ctx context.Context, req provider.CreateRequest) (string, error) {
					if req.Placement.MachineType == "no-such-machine-type" {
						_, _ = b.Provider.ListByTag(ctx) // the defect
					}
					return b.Provider.Create(ctx, req)
				}
			},
		},
		"refuses long names": {
			breaks: "R2.2.23",
			spoil: func(b *broken) {
				b.create = func(ctx context.Context, req provider.CreateRequest) (string, error) {
					if len(req.Name) == 63 {
						return "", errorOf(provider.ErrPermanent, provider.ReasonInvalidRequest)
					}
					return b.Provider.Create(ctx, req)
				}
			},
		},
		"refuses user-data that is no text": {
			breaks: "R2.2.24",
			spoil: func(b *broken) {
				b.create = func(ctx context.Context, req provider.CreateRequest) (string, error) {
					if slices.Contains(req.CloudInit, 0xff) {
						return "", errorOf(provider.ErrPermanent, provider.ReasonInvalidRequest)
					}
					return b.Provider.Create(ctx, req)
				}
			},
		},
		"takes a full backend for a busy one": {
			breaks: "R2.2.25",
			spoil: func(b *broken) {
				b.create = func(ctx context.Context, req provider.CreateRequest) (string, error) {
					id, err := b.Provider.Create(ctx, req)
					if errors.Is(err, provider.ErrQuotaExceeded) {
						err = errorOf(provider.ErrTransient, provider.ReasonBackendError)
					}
					return id, err
				}
			},
		},
		"leaves a disk when there is no room": {
			breaks: "R2.2.27",
			spoil: func(b *broken) {
				b.create = func(ctx context.Context, req provider.CreateRequest) (string, error) {
					id, err := b.Provider.Create(ctx, req)
					if errors.Is(err, provider.ErrQuotaExceeded) {
						b.Backend().LeaveDisk(fake.ID(req.Placement.Zone, req.Name))
					}
					return id, err
				}
			},
		},
		"gives NotFound when something is missing meanwhile": {
			breaks: "R2.2.26",
			spoil: func(b *broken) {
				b.create = func(ctx context.Context, req provider.CreateRequest) (string, error) {
					id, err := b.Provider.Create(ctx, req)
					if err != nil && strings.Contains(err.Error(), "no such instance") {
						err = errorOf(provider.ErrNotFound, provider.ReasonNotFound)
					}
					return id, err
				}
			},
		},
		"goes on although its context has ended": {
			breaks: "R2.1.3 R2.1.4",
			spoil: func(b *broken) {
				b.create = func(ctx context.Context, req provider.CreateRequest) (string, error) {
					if ctx.Err() != nil {
						ctx = context.WithoutCancel(ctx)
					}
					return b.Provider.Create(ctx, req)
				}
			},
		},
		"gives an ID together with an error": {
			breaks: "R2.2.1",
			spoil: func(b *broken) {
				b.create = func(ctx context.Context, req provider.CreateRequest) (string, error) {
					id, err := b.Provider.Create(ctx, req)
					if errors.Is(err, provider.ErrQuotaExceeded) {
						id = fake.ID(req.Placement.Zone, req.Name)
					}
					return id, err
				}
			},
		},
		"asks every host first": {
			breaks: "R2.1.8",
			spoil: func(b *broken) {
				b.create = func(ctx context.Context, req provider.CreateRequest) (string, error) {
					if err := req.Validate(); err == nil && req.Placement.Zone == "nuc" {
						if _, err := b.Provider.ListByTag(ctx); err != nil {
							return "", err
						}
					}
					return b.Provider.Create(ctx, req)
				}
			},
		},
	}
}
