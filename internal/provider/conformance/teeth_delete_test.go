package conformance_test

import (
	"context"
	"errors"
	"slices"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/fake"
)

func brokenDeletes() map[string]defect {
	return map[string]defect{
		"removes what is not ours": {
			breaks: "R2.1.7 R2.4.6 R2.4.7",
			spoil: func(b *broken) {
				b.delete = func(ctx context.Context, id string) error {
					err := b.Provider.Delete(ctx, id)
					if provider.ReasonOf(err) == provider.ReasonNotOurs && strings.Contains(id, "instance") && b.planted(id) {
						b.Backend().Remove(id)
						b.Backend().RemoveDisk(id)
						return nil
					}
					return err
				}
			},
		},
		"leaves the disk": {
			breaks: "R2.2.23 R2.4.1 R2.4.3 R2.4.4 R2.4.5 R2.4.16 R2.4.17",
			spoil: func(b *broken) {
				b.delete = func(ctx context.Context, id string) error {
					err := b.Provider.Delete(ctx, id)
					if err == nil {
						b.Backend().LeaveDisk(id)
					}
					return err
				}
			},
		},
		"gives NotFound when nothing is there": {
			breaks: "R2.4.2 R2.4.15",
			spoil: func(b *broken) {
				b.delete = func(ctx context.Context, id string) error {
					seen, there := b.Backend().Look(id)
					err := b.Provider.Delete(ctx, id)
					if err == nil && !there && seen.ID == "" && !slices.Contains(b.Backend().Disks(), id) && strings.HasPrefix(id, "zones/beelink/") {
						return errorOf(provider.ErrNotFound, provider.ReasonNotFound)
					}
					return err
				}
			},
		},
		"takes the disk first": {
			breaks: "R2.4.9",
			spoil: func(b *broken) {
				b.delete = func(ctx context.Context, id string) error {
					if ours(b, id) && ctx.Err() == nil {
						b.Backend().RemoveDisk(id)
					}
					return b.Provider.Delete(ctx, id)
				}
			},
		},
		"removes the image": {
			breaks: "R2.4.10",
			spoil: func(b *broken) {
				b.delete = func(ctx context.Context, id string) error {
					err := b.Provider.Delete(ctx, id)
					if err == nil {
						b.Backend().RemoveImage("beelink", fake.DefaultImage)
					}
					return err
				}
			},
		},
		"removes the disks of longer names": {
			breaks: "R2.4.11",
			spoil: func(b *broken) {
				b.delete = func(ctx context.Context, id string) error {
					err := b.Provider.Delete(ctx, id)
					for _, disk := range b.Backend().Disks() {
						if err == nil && strings.HasPrefix(disk, id) {
							b.Backend().RemoveDisk(disk)
						}
					}
					return err
				}
			},
		},
		"goes on when the instance is not ours any more": {
			breaks: "R2.4.8",
			spoil: func(b *broken) {
				b.delete = func(ctx context.Context, id string) error {
					err := b.Provider.Delete(ctx, id)
					if provider.ReasonOf(err) == provider.ReasonNotOurs {
						return errors.Join(err, b.Provider.Delete(ctx, id+"-disk"))
					}
					return err
				}
			},
		},
		"hides a step that failed": {
			breaks: "R2.4.12",
			spoil: func(b *broken) {
				b.delete = func(ctx context.Context, id string) error {
					err := b.Provider.Delete(ctx, id)
					if err != nil && strings.Contains(err.Error(), "remove disk") && strings.Contains(err.Error(), "4711") {
						return nil
					}
					return err
				}
			},
		},
		"refuses a host that is not configured": {
			breaks: "R2.4.14",
			spoil: func(b *broken) {
				b.delete = func(ctx context.Context, id string) error {
					if strings.Contains(id, "elsewhere") {
						return errorOf(provider.ErrPermanent, provider.ReasonHostNotConfigured)
					}
					return b.Provider.Delete(ctx, id)
				}
			},
		},
	}
}

// planted reports whether something stands that was never ours.
func (b *broken) planted(id string) bool {
	seen, ok := b.Backend().Look(id)
	return ok && (!seen.Marked || strings.HasPrefix(seen.Ref, "elsewhere/"))
}
