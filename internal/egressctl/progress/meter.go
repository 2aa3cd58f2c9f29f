// Package progress shows on a terminal, or in a log, how far a long step is.
//
// It is by hand because a run's log lines and its progress share one stream: on a terminal one line is
// rewritten, and a log line goes above it; elsewhere a plain line is written every few seconds.
package progress

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/output"
)

const (
	// drawPeriod is how often a terminal's line is rewritten, and how soon a new step is told elsewhere.
	drawPeriod = 200 * time.Millisecond
	// transferPeriod and waitPeriod are how often a plain line tells of the same step again.
	transferPeriod = 5 * time.Second
	waitPeriod     = 15 * time.Second

	clearLine = "\r\x1b[K"
)

// Style says where the progress goes.
type Style struct {
	// Quiet shows none.
	Quiet bool
	// Terminal rewrites one line, else lines are written one after the other.
	Terminal bool
	// Width gives the terminal's columns; a line is cut to them. May be nil.
	Width func() int
}

// Meter shows the state of one step at a time. It is also the writer for log lines that appear
// meanwhile. All methods are safe for concurrent use.
type Meter struct {
	style Style

	mu      sync.Mutex
	out     io.Writer
	step    step
	shown   bool // a rewritten line stands on the terminal
	changed bool // something new since the last plain line
	stop    chan struct{}
	stopped chan struct{}
}

// New shows progress on out.
func New(out io.Writer, style Style) *Meter {
	return &Meter{out: out, style: style}
}

// Write prints p above the progress line. It implements io.Writer for loggers.
func (m *Meter) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.erase()
	n, err := m.out.Write(p)
	if m.stop != nil && m.style.Terminal {
		m.draw()
	}
	return n, err
}

// Start begins to show; what it shows is set by Bytes and Say. It is stopped by Stop.
func (m *Meter) Start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.style.Quiet || m.stop != nil {
		return
	}
	m.stop, m.stopped = make(chan struct{}), make(chan struct{})
	go m.run(m.stop, m.stopped)
}

// Stop ends the showing and removes the line from a terminal. Nothing is shown after it returns.
func (m *Meter) Stop() {
	m.mu.Lock()
	stop, stopped := m.stop, m.stopped
	m.stop = nil
	m.mu.Unlock()
	if stop == nil {
		return
	}
	close(stop)
	<-stopped
	m.mu.Lock()
	defer m.mu.Unlock()
	m.erase()
	m.step, m.changed = step{}, false
}

// Bytes reports a transfer. It only takes a note, so it never holds up the transfer.
func (m *Meter) Bytes(name string, done, total int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begin(name)
	m.step.bytes(time.Now(), done, total)
}

// Say reports what a step waits for or does, in a few words.
func (m *Meter) Say(name, detail string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begin(name)
	if m.step.detail != detail {
		m.step.detail, m.changed = detail, true
	}
}

// begin switches to the step called name.
func (m *Meter) begin(name string) {
	if m.step.name != name {
		m.step, m.changed = step{name: name, began: time.Now()}, true
	}
}

func (m *Meter) run(stop, stopped chan struct{}) {
	defer close(stopped)
	ticker := time.NewTicker(drawPeriod)
	defer ticker.Stop()
	var last time.Time
	for {
		select {
		case <-stop:
			return
		case now := <-ticker.C:
			m.tick(now, &last)
		}
	}
}

// tick draws, on a terminal at once, elsewhere when something new happened or time has passed.
func (m *Meter) tick(now time.Time, last *time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.step.name == "" {
		return
	}
	if m.style.Terminal {
		m.draw()
		return
	}
	if m.changed || now.Sub(*last) >= m.step.period() {
		m.changed, *last = false, now
		m.print(m.step.line(now) + "\n")
	}
}

func (m *Meter) draw() {
	if m.step.name == "" {
		return
	}
	line := m.step.line(time.Now())
	if m.style.Width != nil {
		line = cut(line, m.style.Width()-1)
	}
	m.print(clearLine + line)
	m.shown = true
}

func (m *Meter) erase() {
	if m.shown {
		m.print(clearLine)
		m.shown = false
	}
}

// print shows text. A stream that is gone must not end the work that it tells of.
func (m *Meter) print(text string) { _, _ = io.WriteString(m.out, text) }

// cut shortens line to width columns; without a width it stays whole.
func cut(line string, width int) string {
	runes := []rune(line)
	if width <= 0 || len(runes) <= width {
		return line
	}
	return string(runes[:width])
}

// step is what is shown now.
type step struct {
	name        string
	began       time.Time
	detail      string
	done, total int64
	rate        rate
}

func (s *step) bytes(now time.Time, done, total int64) {
	s.done, s.total = done, total
	s.rate.add(now, done)
}

func (s *step) period() time.Duration {
	if s.total > 0 {
		return transferPeriod
	}
	return waitPeriod
}

// line describes the step: "image transfer: 120 MiB of 435 MiB (27%), 11 MiB/s, 28s left" or
// "waiting for berlin-1: no address yet, 35s".
func (s *step) line(now time.Time) string {
	parts := []string{}
	switch {
	case s.total > 0:
		parts = append(parts, fmt.Sprintf("%s of %s (%d%%)",
			output.Bytes(s.done), output.Bytes(s.total), min(100, 100*s.done/s.total)))
	case s.done > 0:
		parts = append(parts, output.Bytes(s.done))
	}
	if s.detail != "" {
		parts = append(parts, s.detail)
	}
	if perSecond := s.rate.perSecond(now); perSecond > 0 {
		parts = append(parts, output.Bytes(int64(perSecond))+"/s")
		if left := s.total - s.done; s.total > 0 && left > 0 {
			parts = append(parts, output.Elapsed(time.Duration(float64(left)/perSecond*float64(time.Second)))+" left")
		}
	} else {
		parts = append(parts, output.Elapsed(now.Sub(s.began)))
	}
	return output.Clean(s.name + ": " + strings.Join(parts, ", "))
}
