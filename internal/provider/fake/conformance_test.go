package fake_test

import (
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/conformance"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/fake"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, fake.NewHarness, conformance.Title("fake: in memory"))
}
