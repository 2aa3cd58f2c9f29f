package conformance_test

import (
	"context"
	"slices"

	"github.com/go-logr/logr"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/fake"
)

func brokenChecks() map[string]defect {
	return map[string]defect{
		"leaves out a host that it cannot ask": {
			breaks: "R2.6.1",
			spoil: func(b *broken) {
				b.check = func(ctx context.Context) []provider.HostCheck {
					return slices.DeleteFunc(b.Provider.Check(ctx), func(c provider.HostCheck) bool { return c.Reason == provider.ReasonUnreachable })
				}
			},
		},
		"finds every host ready": {
			breaks: "R2.6.2 R2.6.3",
			spoil: func(b *broken) {
				b.check = func(ctx context.Context) []provider.HostCheck {
					checks := b.Provider.Check(ctx)
					for i := range checks {
						checks[i].Ready, checks[i].Reason = true, provider.ReasonReady
					}
					return checks
				}
			},
		},
		"asks one host after the other": {
			breaks: "R2.6.4",
			spoil: func(b *broken) {
				b.check = func(ctx context.Context) []provider.HostCheck {
					var checks []provider.HostCheck
					for _, zone := range []string{"beelink", "nuc"} {
						one := fake.New("fake-entry", fake.WithBackend(b.Backend()), fake.WithZones(zone))
						checks = append(checks, one.Check(ctx)...)
					}
					return checks
				}
			},
		},
		"asks for each instance": {
			breaks: "R2.6.5",
			spoil: func(b *broken) {
				b.check = func(ctx context.Context) []provider.HostCheck {
					for _, seen := range b.Backend().Instances() {
						_, _ = b.Provider.Get(logr.NewContext(ctx, logr.Discard()), seen.ID) // the defect
					}
					return b.Provider.Check(ctx)
				}
			},
		},
		"gives a reason in words": {
			breaks: "R2.6.6",
			spoil: func(b *broken) {
				b.check = func(ctx context.Context) []provider.HostCheck {
					checks := b.Provider.Check(ctx)
					for i := range checks {
						if !checks[i].Ready {
							checks[i].Reason = "cannot be reached"
						}
					}
					return checks
				}
			},
		},
		"does not say what to do": {
			breaks: "R2.6.7",
			spoil: func(b *broken) {
				b.check = func(ctx context.Context) []provider.HostCheck {
					checks := b.Provider.Check(ctx)
					for i := range checks {
						checks[i].Message = ""
					}
					return checks
				}
			},
		},
		"repeats a detail": {
			breaks: "R2.6.10",
			spoil: func(b *broken) {
				b.check = func(ctx context.Context) []provider.HostCheck {
					checks := b.Provider.Check(ctx)
					for i := range checks {
						checks[i].Details = append(checks[i].Details, checks[i].Details...)
					}
					return checks
				}
			},
		},
	}
}
