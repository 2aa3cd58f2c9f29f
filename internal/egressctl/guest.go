package egressctl

import (
	"context"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/output"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// guestEvery is the time between two questions to a guest that is waited for: they cost it and its host
// more than a look does.
const guestEvery = 30 * time.Second

// guest is a guest that is waited for.
type guest struct {
	reporter provider.GuestReporter // nil where the provider has none
	id       string
	asked    time.Time
	said     string
}

func (t *target) guest(id string) *guest {
	reporter, _ := provider.As[provider.GuestReporter](t.provider)
	return &guest{reporter: reporter, id: id, asked: time.Now()}
}

// says gives what the guest said of its cloud-init when it was last asked, which is now where that is
// due; "" while it said nothing.
func (g *guest) says(ctx context.Context) string {
	if g.reporter == nil || time.Since(g.asked) < guestEvery {
		return g.said
	}
	report, err := g.reporter.GuestReport(ctx, g.id)
	if ctx.Err() == nil {
		g.asked = time.Now()
	}
	if err == nil && report.State != provider.GuestUnknown {
		g.said = output.Clean(report.Message)
	}
	return g.said
}
