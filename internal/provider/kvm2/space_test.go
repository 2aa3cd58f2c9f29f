package kvm2

import (
	"math"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

func TestCheckPoolSpace_belowNeededIsQuota(t *testing.T) {
	const image, disk = 400 << 20, 10 << 30
	const needed = image + disk + 16<<20
	cases := map[string]struct {
		reason      string
		available   uint64
		image, disk uint64
		want        error
	}{
		"exactly enough":   {"the reserve is in the sum", needed, image, disk, nil},
		"a byte short":     {"image, disk and reserve must fit", needed - 1, image, disk, provider.ErrQuotaExceeded},
		"image is cached":  {"it is there already", needed - image, 0, disk, nil},
		"cached, no room":  {"the disk may grow to its full size", needed - image - 1, 0, disk, provider.ErrQuotaExceeded},
		"nothing left":     {"the disk is thin, and would stop its guest", 0, 0, disk, provider.ErrQuotaExceeded},
		"sum that is huge": {"a length comes from a server", needed, math.MaxUint64, disk, provider.ErrQuotaExceeded},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			h := newFakeHost("beelink")
			h.withPool(provider.DefaultPool, func(p *fakePool) { p.capacity = tc.available })
			c := newFakeConn(h)
			defer func() { _ = c.Close() }()
			err := checkPoolSpace(t.Context(), c, pool{Name: provider.DefaultPool}, tc.image, tc.disk)
			if tc.want == nil {
				if err != nil {
					t.Errorf("%s: %v", tc.reason, err)
				}
				return
			}
			wantImageErr(t, err, tc.want, provider.ReasonQuotaExceeded, "pool default has "+gibibytes(tc.available)+" available")
		})
	}
}

func TestCheckPoolSpace_saysWhatIsNeeded(t *testing.T) {
	h := newFakeHost("beelink")
	h.withPool(provider.DefaultPool, func(p *fakePool) { p.capacity = 1 << 30 })
	c := newFakeConn(h)
	defer func() { _ = c.Close() }()
	err := checkPoolSpace(t.Context(), c, pool{Name: provider.DefaultPool}, 0, 10<<30)
	wantImageErr(t, err, provider.ErrQuotaExceeded, provider.ReasonQuotaExceeded, "1.00 GiB available and 10.02 GiB are needed")
}

// An inactive pool says that nothing is available, and means that nobody knows.
func TestCheckPoolSpace_inactivePoolIsNotFull(t *testing.T) {
	h := newFakeHost("beelink")
	h.withPool(provider.DefaultPool, func(p *fakePool) { p.state = fakePoolInactive })
	c := newFakeConn(h)
	defer func() { _ = c.Close() }()
	err := checkPoolSpace(t.Context(), c, pool{Name: provider.DefaultPool}, 0, 1)
	wantImageErr(t, err, provider.ErrTransient, provider.ReasonPoolNotActive, "virsh pool-start")
}
