package egressctl_test

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/probe"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/fake"
)

// pass lets time pass by the bubble's clock.
func pass(d time.Duration) { <-time.After(d) }

var errRefused = errors.New("the proxy at 198.18.0.2:3128 refused the connection")

// servesFrom lets the proxies serve from some time on after now.
func (d *desk) servesFrom(after time.Duration) {
	from := time.Now().Add(after)
	d.probe = func(probe.Options) (probe.Result, error) {
		if time.Now().Before(from) {
			return probe.Result{}, errRefused
		}
		return probe.Result{EgressIP: netip.MustParseAddr(egress)}, nil
	}
}

func TestWait_showsWhatIsMissingAndForHowLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "beelink")
		d.backend.HoldAddresses()
		d.servesFrom(90 * time.Second)
		id := idOf("kvm2-home", "beelink", "berlin-1")
		go func() {
			pass(40 * time.Second)
			d.backend.SetAddresses(id, "198.18.0.9")
		}()
		e := d.must("create", "berlin-1", "--allow-source", "198.51.100.0/24")
		if got := strings.Count(e.err, "no address yet"); got != 3 {
			t.Errorf("no address for 40 s is said %d times, want at once and every 15 s", got)
		}
		for _, part := range []string{"waiting for berlin-1 on kvm2-home, host beelink: no address yet, 15s\n", "host beelink: " + errRefused.Error() + ", "} {
			if !strings.Contains(e.err, part) {
				t.Errorf("the progress does not say %q:\n%s", part, e.err)
			}
		}
	})
}

func TestWait_endsWithAClearWordWhenNothingPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "beelink")
		d.servesFrom(time.Hour)
		began := time.Now()
		e := d.run(open("berlin-1", "--wait-timeout", "3m")...)
		wantFailure(t, e, egressctl.CodeNotServing, "kvm2-home, host beelink", "within --wait-timeout", errRefused.Error(),
			"egressctl create berlin-1 --entry kvm2-home", "egressctl delete berlin-1 --entry kvm2-home")
		if took := time.Since(began); took < 3*time.Minute || took > 3*time.Minute+time.Second {
			t.Errorf("it ended after %v, want 3m", took)
		}
		if n := len(d.backend.Instances()); n != 1 {
			t.Errorf("%d instances stand there: a proxy that does not answer is reported, not destroyed", n)
		}
	})
}

func TestWait_sitsOutAHostThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "beelink")
		d.backend.Fail(fake.Get, 20, fake.Unreachable())
		d.must(open("berlin-1")...)
	})
}

func TestWait_endsWhereWaitingIsNoUse(t *testing.T) {
	id := idOf("kvm2-home", "beelink", "berlin-1")
	cases := map[string]struct {
		reason string
		happen func(*fake.Backend)
		code   int
		says   string
	}{
		"Deleted": {"someone deleted it", func(b *fake.Backend) { b.Remove(id) }, egressctl.CodeNotFound, "was deleted"},
		"Stopped": {"a stopped VM answers nobody", func(b *fake.Backend) { b.Stop(id) }, egressctl.CodeNotServing, "egressctl create berlin-1"},
		"Refused": {"a permanent error does not pass", func(b *fake.Backend) {
			b.Fail(fake.Get, 1, provider.Errorf(provider.ErrPermanent, provider.ReasonAuthFailed, "the key is not accepted"))
		}, egressctl.CodePermanent, "the key is not accepted"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, "beelink")
				d.servesFrom(time.Hour)
				go func() {
					pass(time.Minute)
					tc.happen(d.backend)
				}()
				began := time.Now()
				wantFailure(t, d.run(open("berlin-1")...), tc.code, "kvm2-home, host beelink", "berlin-1", tc.says)
				if took := time.Since(began); took > 65*time.Second {
					t.Errorf("it ended %v after its start, want within seconds of the minute", took)
				}
			})
		})
	}
}

func TestWait_asksWithTheProbesCredentialForTheCheckURL(t *testing.T) {
	d := newDesk(t, "beelink").checked()
	var asked []probe.Options
	d.probe = func(r probe.Options) (probe.Result, error) {
		asked = append(asked, r)
		return probe.Result{EgressIP: netip.MustParseAddr(egress)}, nil
	}
	d.env["EGRESSCTL_PASSWORD"] = "open sesame"
	d.must("create", "berlin-1", "--auth-user", "alice", "--port", "8118", "-q")
	// A check URL that is changed later is none that this proxy's credential is good for.
	d.write("providers.yaml", strings.Replace(d.read("providers.yaml"), checkURL, "https://other.example.net/", 1))
	d.must("create", "berlin-1", "-q")
	if len(asked) != 2 {
		t.Fatalf("%d requests, want two", len(asked))
	}
	if diff := cmp.Diff(asked[0], asked[1]); diff != "" {
		t.Errorf("the second run asked for something else: -first, +second:\n%s", diff)
	}
	r := asked[0]
	if r.Endpoint != "198.18.0.2:8118" || r.CheckURL != checkURL || !strings.HasPrefix(r.User, "probe-") || len(r.Password) < 20 {
		t.Errorf("the request is not the probe's to the check URL: proxy %s, check URL %s, user %s", r.Endpoint, r.CheckURL, r.User)
	}
}

func TestInterrupt_saysHowToGoOn(t *testing.T) {
	cases := map[string]struct {
		reason string
		hold   func(d *desk) <-chan struct{}
		args   []string
		says   []string
	}{
		"Creating": {"the provider works", func(d *desk) <-chan struct{} { return d.backend.Block(fake.Start).Arrived() },
			open("berlin-1"), []string{"while creating berlin-1 on kvm2-home, host beelink", "egressctl create berlin-1", "egressctl delete berlin-1"}},
		"Waiting": {"the proxy does not serve", func(d *desk) <-chan struct{} {
			asked := make(chan struct{}, 1000)
			d.probe = func(probe.Options) (probe.Result, error) { asked <- struct{}{}; return probe.Result{}, errRefused }
			return asked
		}, open("berlin-1"), []string{"while waiting for berlin-1 on kvm2-home, host beelink", "egressctl create berlin-1", "egressctl delete berlin-1"}},
		"Deleting": {"the host is slow", func(d *desk) <-chan struct{} { return d.backend.Block(fake.Delete).Arrived() },
			[]string{"delete", "berlin-1"}, []string{"while deleting berlin-1", "egressctl delete berlin-1"}},
		"Listing": {"the host is slow", func(d *desk) <-chan struct{} { return d.backend.Block(fake.ListByTag).Arrived() },
			[]string{"list"}, []string{"interrupted"}},
		"Checking": {"the host is slow", func(d *desk) <-chan struct{} { return d.backend.Block(fake.Check).Arrived() },
			[]string{"check"}, []string{"interrupted"}},
		"Reading": {"nobody writes to standard input", func(d *desk) <-chan struct{} {
			asked, hold := make(chan struct{}, 1), make(chan struct{})
			d.t.Cleanup(func() { close(hold) })
			d.in = readerFunc(func([]byte) (int, error) { asked <- struct{}{}; <-hold; return 0, io.EOF })
			return asked
		}, []string{"create", "berlin-1", "--auth-user", "alice", "--password-file", "-"}, []string{"interrupted"}},
		"Getting": {"the host is slow", func(d *desk) <-chan struct{} { return d.backend.Block(fake.Get).Arrived() },
			[]string{"get", "berlin-1"}, []string{"interrupted"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, "beelink")
				under := tc.hold(d)
				ctx, interrupt := context.WithCancel(t.Context())
				var at time.Time
				go func() {
					<-under
					at = time.Now()
					interrupt()
				}()
				e := d.runIn(ctx, append(tc.args, "-q")...)
				wantFailure(t, e, egressctl.CodeInterrupted, tc.says...)
				if took := time.Since(at); took > time.Second {
					t.Errorf("it ended %v after the interruption, want at most 1s", took)
				}
			})
		})
	}
}

func TestCreate_timeoutSaysHowToGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "beelink")
		d.backend.Block(fake.Start)
		e := d.run(open("berlin-1", "--timeout", "90s", "--config", d.env["EGRESSCTL_CONFIG"])...)
		wantFailure(t, e, egressctl.CodeTransient, "kvm2-home, host beelink", "--timeout",
			"egressctl create berlin-1 --entry kvm2-home --config "+d.env["EGRESSCTL_CONFIG"])
	})
}

// transferring reports an image transfer before it creates.
type transferring struct{ *fake.Provider }

func (p transferring) Create(ctx context.Context, req provider.CreateRequest) (string, error) {
	const total = 435 << 20
	for i := range int64(45) {
		provider.Report(ctx, provider.Progress{Step: "image transfer", Done: min(total, i*10<<20), Total: total})
		pass(time.Second)
	}
	provider.Report(ctx, provider.Progress{Step: "start the VM"})
	pass(time.Second)
	return p.Provider.Create(ctx, req)
}

func TestCreate_showsTheImageTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "beelink")
		d.wrap = func(p *fake.Provider) provider.Provider { return transferring{p} }
		e := d.must("create", "berlin-1", "--allow-source", "198.51.100.0/24")
		for _, part := range []string{"image transfer: 200 MiB of 435 MiB (45%), 9.8 MiB/s, 23s left\n", "start the VM: 0s\n"} {
			if !strings.Contains(e.err, part) {
				t.Errorf("the progress does not say %q:\n%s", part, e.err)
			}
		}
		if strings.Contains(e.out, "MiB") {
			t.Errorf("progress is on standard output:\n%s", e.out)
		}
	})
}

// readerFunc is a reader that is one function.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
