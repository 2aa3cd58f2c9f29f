package kvm2

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// clockTolerance is how far a host's clock may be off. A guest takes its time from the host, and what
// it verifies with it, certificates and signed package lists, is good for hours.
const clockTolerance = time.Minute

// clock compares the host's clock with ours. libvirt has no call for it: the host is asked by its shell,
// where the user has one, which a restricted key has not.
func (d *diagnosis) clock(ctx context.Context, c conn) error {
	before := time.Now()
	at, err := c.HostTime(ctx)
	if errors.Is(err, errNoShell) {
		d.add(provider.SeverityNote, reasonClockNotChecked, "timedatectl on the host",
			"its clock was not checked: the SSH user may run no command there, and libvirt does not tell the time")
		return nil
	}
	if err != nil {
		return fmt.Errorf("ask the host for its time: %w", err)
	}
	// The host answered at some moment between the two looks at our own clock.
	after := time.Now()
	off := time.Duration(0)
	switch {
	case at.Before(before.Truncate(time.Second)):
		off = at.Sub(before)
	case at.After(after):
		off = at.Sub(after)
	}
	if off.Abs() > clockTolerance {
		d.add(provider.SeverityWarning, reasonClockOff, "timedatectl set-ntp true",
			"its clock is off by %v against this machine's, and its VMs take their time from it", off.Round(time.Second))
	}
	return nil
}

// parseHostTime reads what date +%s prints.
func parseHostTime(text string) (time.Time, bool) {
	seconds, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || seconds <= 0 {
		return time.Time{}, false
	}
	return time.Unix(seconds, 0), true
}
