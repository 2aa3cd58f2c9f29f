package progress_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/progress"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// screen is a writer that may be read meanwhile.
type screen struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// visible is what a terminal shows in the end: each line as it was last written.
func (s *screen) visible() string {
	var lines []string
	for line := range strings.SplitSeq(s.String(), "\n") {
		parts := strings.Split(line, "\r\x1b[K")
		lines = append(lines, parts[len(parts)-1])
	}
	return strings.Join(lines, "\n")
}

// pass lets time pass by the bubble's clock.
func pass(d time.Duration) { <-time.After(d) }

// transfer reports perSecond bytes each second, to total.
func transfer(m *progress.Meter, perSecond, total int64, seconds int) {
	for i := range seconds + 1 {
		m.Bytes("image transfer", min(total, int64(i)*perSecond), total)
		pass(time.Second)
	}
}

func TestMeter_plainLinesEveryFewSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s screen
		m := progress.New(&s, progress.Style{})
		m.Start()
		transfer(m, 10<<20, 435<<20, 11)
		m.Stop()
		want := strings.Join([]string{
			"image transfer: 0 B of 435 MiB (0%), 0s",
			"image transfer: 50 MiB of 435 MiB (11%), 9.6 MiB/s, 40s left",
			"image transfer: 100 MiB of 435 MiB (22%), 9.8 MiB/s, 34s left",
			"",
		}, "\n")
		if diff := cmp.Diff(want, s.String()); diff != "" {
			t.Errorf("-want, +got:\n%s", diff)
		}
	})
}

func TestMeter_terminalShowsOneLineAndRemovesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s screen
		m := progress.New(&s, progress.Style{Terminal: true, Width: func() int { return 30 }})
		m.Start()
		transfer(m, 10<<20, 435<<20, 3)
		if got := s.visible(); got != "image transfer: 30 MiB of 435" {
			t.Errorf("the terminal shows %q, want one line that fits into its width", got)
		}
		if strings.Contains(s.String(), "\n") {
			t.Errorf("progress on a terminal began a new line: %q", s.String())
		}
		m.Stop()
		if got := s.visible(); got != "" {
			t.Errorf("%q is left on the terminal", got)
		}
	})
}

func TestMeter_logLinesGoAboveTheProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s screen
		m := progress.New(&s, progress.Style{Terminal: true})
		m.Start()
		m.Say("waiting for berlin-1", "no address yet")
		pass(time.Second)
		if _, err := m.Write([]byte("a log line\n")); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff("a log line\nwaiting for berlin-1: no address yet, 1s", s.visible()); diff != "" {
			t.Errorf("-want, +got:\n%s", diff)
		}
		m.Stop()
	})
}

func TestMeter_newDetailIsShownAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s screen
		m := progress.New(&s, progress.Style{})
		m.Start()
		for _, detail := range []string{"no address yet", "no answer from the proxy"} {
			m.Say("waiting for berlin-1", detail)
			pass(time.Second)
		}
		m.Stop()
		want := "waiting for berlin-1: no address yet, 0s\nwaiting for berlin-1: no answer from the proxy, 1s\n"
		if diff := cmp.Diff(want, s.String()); diff != "" {
			t.Errorf("-want, +got:\n%s", diff)
		}
	})
}

func TestMeter_stalledTransferShowsASinkingRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s screen
		m := progress.New(&s, progress.Style{Terminal: true})
		m.Start()
		transfer(m, 10<<20, 435<<20, 5)
		pass(time.Minute)
		if got := s.visible(); !strings.Contains(got, "KiB/s") {
			t.Errorf("after a minute without a byte it shows %q: the rate of before is not true any more", got)
		}
		m.Stop()
	})
}

func TestMeter_quietShowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s screen
		m := progress.New(&s, progress.Style{Quiet: true, Terminal: true})
		m.Start()
		transfer(m, 1, 10, 10)
		m.Stop()
		if s.String() != "" {
			t.Errorf("quiet wrote %q", s.String())
		}
	})
}
