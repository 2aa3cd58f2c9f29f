package static

import (
	"context"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/conformance"
)

func TestConformance(t *testing.T) {
	dir := t.TempDir()
	conformance.Run(t, func(_ context.Context, s conformance.Setup) (*conformance.Harness, error) {
		return newHarness(dir, s)
	}, conformance.Title("static: a lease directory"))
}
