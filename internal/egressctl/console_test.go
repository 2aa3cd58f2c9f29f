package egressctl_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/fake"
)

// consoled gives one text after the other, each of which is all of the log at that time, and errors
// where there are some.
type consoled struct {
	*fake.Provider
	logs []string
	errs map[int]error
	read *int
}

func (c consoled) ReadConsole(_ context.Context, _ string, from int64, w io.Writer) (int64, error) {
	n := *c.read
	*c.read++
	if err := c.errs[n]; err != nil {
		return from, err
	}
	log := c.logs[min(n, len(c.logs)-1)]
	if from > int64(len(log)) {
		from = 0
	}
	const most = 16
	piece := log[from:min(from+most, int64(len(log)))]
	_, err := io.WriteString(w, piece)
	return from + int64(len(piece)), err
}

func consoleDesk(t *testing.T, errs map[int]error, logs ...string) *desk {
	t.Helper()
	d := newDesk(t, "beelink")
	d.must(open("berlin-1")...)
	d.wrap = func(p *fake.Provider) provider.Provider { return consoled{p, logs, errs, new(int)} }
	return d
}

func TestConsole_wholeAndCleanUnlessRaw(t *testing.T) {
	const log = "\x1b[2JBdsDxe: loading Boot0001\r\n\x1b]0;owned\aLinux version 6.12\r\n"
	d := consoleDesk(t, nil, log)
	if got, want := d.must("console", "berlin-1").out, "BdsDxe: loading Boot0001\nLinux version 6.12\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := d.must("console", "berlin-1", "--raw").out; got != log {
		t.Errorf("--raw gives %q, want %q", got, log)
	}
	if got := d.must("console", "berlin-1", "-o", "json").out; !strings.Contains(got, `"text": "BdsDxe: loading Boot0001\nLinux`) {
		t.Errorf("as JSON: %s", got)
	}
	wantFailure(t, d.run("console", "berlin-1", "--follow", "-o", "json"), egressctl.CodeUsage, "--follow")
	wantFailure(t, d.run("console", "berlin-2"), egressctl.CodeNotFound, "berlin-2")
}

func TestConsole_followsUntilInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := consoleDesk(t, map[int]error{3: fake.Unreachable()}, "one\n", "one\n", "one\ntwo\n")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan ended)
		go func() { done <- d.runIn(ctx, "console", "berlin-1", "--follow") }()
		pass(10 * time.Second)
		cancel()
		e := <-done
		if e.out != "one\ntwo\n" || e.code != egressctl.CodeInterrupted {
			t.Errorf("exit code %d, %q %q; want both lines once, over a host that was away for a moment", e.code, e.out, e.err)
		}
	})
}

func TestConsole_saysWhyThereIsNone(t *testing.T) {
	noLog := provider.Errorf(provider.ErrPermanent, provider.ReasonNoConsole, "the VM was made without a console log")
	d := consoleDesk(t, map[int]error{0: noLog}, "")
	wantFailure(t, d.run("console", "berlin-1"), egressctl.CodePermanent, "kvm2-home, host beelink", "made without a console log")
}
