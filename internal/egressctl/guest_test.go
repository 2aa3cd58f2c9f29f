package egressctl_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/fake"
)

// reporter tells of guests what it is given, and counts.
type reporter struct {
	*fake.Provider
	report provider.GuestReport
	err    error
	asked  *int
}

func (r reporter) GuestReport(context.Context, string) (provider.GuestReport, error) {
	*r.asked++
	return r.report, r.err
}

func (d *desk) guestSays(report provider.GuestReport, err error) *int {
	asked := new(int)
	d.wrap = func(p *fake.Provider) provider.Provider { return reporter{p, report, err, asked} }
	return asked
}

var failedGuest = provider.GuestReport{State: provider.GuestFailed, Failed: []string{"modules-final/runcmd"},
	Message: "cloud-init ended with errors in modules-final/runcmd"}

func TestWait_saysWhatTheGuestEndedWithAndAsksSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "beelink")
		d.servesFrom(time.Hour)
		asked := d.guestSays(failedGuest, nil)
		e := d.run(open("berlin-1", "--wait-timeout", "3m")...)
		wantFailure(t, e, egressctl.CodeNotServing, errRefused.Error()+"; cloud-init ended with errors in modules-final/runcmd",
			"egressctl console berlin-1 --entry kvm2-home")
		if *asked < 4 || *asked > 6 {
			t.Errorf("the guest was asked %d times in three minutes, want every 30 s", *asked)
		}
	})
}

func TestWait_doesNotAskAGuestThatServesSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "beelink")
		d.servesFrom(25 * time.Second)
		asked := d.guestSays(failedGuest, nil)
		d.must(open("berlin-1")...)
		if *asked != 0 {
			t.Errorf("the guest was asked %d times", *asked)
		}
	})
}

func TestGet_tellsWhatTheGuestEndedWith(t *testing.T) {
	cases := map[string]struct {
		reason string
		report provider.GuestReport
		err    error
		says   string
	}{
		"Failed":  {"what failed is named", failedGuest, nil, "modules-final/runcmd"},
		"Unknown": {"a guest that does not tell is not worth a line", provider.GuestReport{State: provider.GuestUnknown, Message: "no agent"}, nil, ""},
		"Error":   {"the instance is shown all the same", provider.GuestReport{}, fake.Unreachable(), ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, "beelink")
			d.must(open("berlin-1")...)
			d.guestSays(tc.report, tc.err)
			got := d.must("get", "berlin-1").out
			if (tc.says == "") == strings.Contains(got, "Guest:") || !strings.Contains(got, tc.says) {
				t.Errorf("%s: it says\n%s", tc.reason, got)
			}
		})
	}
}
