package conformance_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/go-logr/logr"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/tracing"
)

func brokenTellings() map[string]defect {
	failing := func(edit func(context.Context, provider.CreateRequest, error) error) func(*broken) {
		return func(b *broken) {
			b.create = func(ctx context.Context, req provider.CreateRequest) (string, error) {
				id, err := b.Provider.Create(ctx, req)
				if errors.Is(err, provider.ErrQuotaExceeded) {
					err = edit(ctx, req, err)
				}
				return id, err
			}
		}
	}
	return map[string]defect{
		"repeats the user-data in an error": {
			breaks: "R8.3.2",
			spoil: failing(func(_ context.Context, req provider.CreateRequest, err error) error {
				return provider.Wrap("fake-entry", fmt.Errorf("%w: %q", err, []byte(req.CloudInit)))
			}),
		},
		"repeats the user-data in hex in a log line": {
			breaks: "R8.3.1",
			spoil: failing(func(ctx context.Context, req provider.CreateRequest, err error) error {
				logr.FromContextOrDiscard(ctx).V(4).Info("refused", "userData", hex.EncodeToString(req.CloudInit))
				return err
			}),
		},
		"repeats the user-data in a span": {
			breaks: "R8.3.3",
			spoil: failing(func(ctx context.Context, req provider.CreateRequest, err error) error {
				_, span := tracing.Start(ctx, "fake.refused")
				tracing.End(span, string(req.CloudInit))
				return err
			}),
		},
		"forgets the entry's name": {
			breaks: "R8.1.3",
			spoil: failing(func(_ context.Context, _ provider.CreateRequest, err error) error {
				return provider.Wrap("", err)
			}),
		},
		"gives an error without a type": {
			breaks: "R8.1.1 R8.1.2 R2.2.25",
			spoil: failing(func(context.Context, provider.CreateRequest, error) error {
				return errors.New("fake-entry: there is no room")
			}),
		},
		"gives a reason in words": {
			breaks: "R8.1.4",
			spoil: failing(func(context.Context, provider.CreateRequest, error) error {
				return errorOf(provider.ErrQuotaExceeded, "no room")
			}),
		},
		"does not name the host": {
			breaks: "R8.1.11",
			spoil: func(b *broken) {
				b.get = func(ctx context.Context, id string) (provider.Instance, error) {
					inst, err := b.Provider.Get(ctx, id)
					if errors.Is(err, provider.ErrTransient) && ctx.Err() == nil {
						err = provider.Wrap("fake-entry", provider.Errorf(provider.ErrTransient, provider.ReasonOf(err), "something went wrong"))
					}
					return inst, err
				}
			},
		},
		"logs what it did at V(0)": {
			breaks: "R8.4.1",
			spoil: func(b *broken) {
				b.get = func(ctx context.Context, id string) (provider.Instance, error) {
					inst, err := b.Provider.Get(ctx, id)
					if logger, noLogger := logr.FromContext(ctx); noLogger == nil {
						logger.Info("got it", "instance", id)
					}
					return inst, err
				}
			},
		},
		"logs twice": {
			breaks: "R8.4.4",
			spoil: func(b *broken) {
				b.get = func(ctx context.Context, id string) (provider.Instance, error) {
					logr.FromContextOrDiscard(ctx).V(1).Info("looking", "instance", id)
					return b.Provider.Get(ctx, id)
				}
			},
		},
		"logs past the context's logger": {
			breaks: "R8.4.5",
			spoil: func(b *broken) {
				b.get = func(ctx context.Context, id string) (provider.Instance, error) {
					return b.Provider.Get(withoutLogger{ctx}, id)
				}
			},
		},
		"opens the caller's span again": {
			breaks: "R8.5.4",
			spoil: func(b *broken) {
				b.get = func(ctx context.Context, id string) (provider.Instance, error) {
					ctx, span := tracing.Start(ctx, "provider.get")
					defer tracing.End(span, "")
					return b.Provider.Get(ctx, id)
				}
			},
		},
	}
}

// withoutLogger hides the logger of a context.
type withoutLogger struct{ context.Context }

func (c withoutLogger) Value(key any) any {
	value := c.Context.Value(key)
	if _, ok := value.(logr.Logger); ok {
		return nil
	}
	return value
}
