package kvm2

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

func TestNew_makesNoConnectionAndWarnsOfUnreadableFiles(t *testing.T) {
	known := filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(known, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	entry := testConfig(t, newFakeHost("beelink"))
	entry.KVM2.SSHKeyFile = filepath.Join(t.TempDir(), "not-there")
	entry.KVM2.KnownHostsFile = known
	var log logLines
	p, err := New(entry, provider.Options{Owner: testOwner, Log: log.logger(0)})
	if err != nil {
		t.Fatalf("a file that comes later must not fail the factory: %v", err)
	}
	if c, ok := p.(provider.Closer); !ok || c.Close() != nil || c.Close() != nil {
		t.Error("close, and close again, must give nil")
	}
	if len(log.lines) != 1 || !strings.Contains(log.text(), "sshKeyFile") {
		t.Errorf("log %q, want one warning, of the key", log.text())
	}
}

func TestNew_refusesWhatCannotWork(t *testing.T) {
	whole := testConfig(t, newFakeHost("beelink"))
	for name, tc := range map[string]struct {
		entry provider.Entry
		owner string
	}{
		"no block": {entry: provider.Entry{Name: testEntry, Type: provider.TypeKVM2}, owner: testOwner},
		"no owner": {entry: whole},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := New(tc.entry, provider.Options{Owner: tc.owner, Log: logr.Discard()})
			wantErr(t, err, provider.ErrPermanent, provider.ReasonInvalidConfig)
			if p != nil {
				t.Error("a provider is returned beside an error")
			}
		})
	}
}

func TestIDFor_isWhatCreateReturns(t *testing.T) {
	r := newRig(t)
	id, err := r.IDFor(testRequest())
	if err != nil {
		t.Fatal(err)
	}
	if n := r.dialer.dialed("beelink"); n != 0 {
		t.Errorf("the host was dialled %d times", n)
	}
	if got := r.mustCreate(t, testRequest()); got != id {
		t.Errorf("create returns %q, IDFor said %q", got, id)
	}
}

func TestGuardedDestinations_isTheHypervisor(t *testing.T) {
	r := newRig(t, "one", "two")
	got, err := r.GuardedDestinations(provider.Placement{Zone: "two"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"two.example.net"}, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	_, err = r.GuardedDestinations(provider.Placement{Zone: "three"})
	wantErr(t, err, provider.ErrPermanent, provider.ReasonUnknownZone)
}

// methods are the calls of the contract that speak to a host, on one running instance.
func methods() map[string]func(context.Context, *Provider) error {
	return map[string]func(context.Context, *Provider) error{
		"create new": func(ctx context.Context, p *Provider) error {
			_, err := p.Create(ctx, testRequest(func(req *provider.CreateRequest) { req.Name, req.UID = "proxy-2", otherUID }))
			return err
		},
		"create again": func(ctx context.Context, p *Provider) error { _, err := p.Create(ctx, testRequest()); return err },
		"get":          func(ctx context.Context, p *Provider) error { _, err := p.Get(ctx, testID); return err },
		"delete":       func(ctx context.Context, p *Provider) error { return p.Delete(ctx, testID) },
		"list":         func(ctx context.Context, p *Provider) error { _, err := p.ListByTag(ctx); return err },
	}
}

func TestProvider_cancelledContextReturnsPromptly(t *testing.T) {
	for name, call := range methods() {
		t.Run(name+" before it begins", func(t *testing.T) {
			r := created(t)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			wantCanceled(t, call(ctx, r.Provider))
			wantUntouched(t, r)
		})
		total := func() int {
			r := created(t)
			if err := call(t.Context(), r.Provider); err != nil {
				t.Fatal(err)
			}
			return len(r.host.recorded())
		}()
		t.Run(name+" while any call hangs", func(t *testing.T) {
			for k := 1; k <= total; k++ {
				r := created(t)
				ctx, cancel := context.WithCancel(t.Context())
				reached := make(chan struct{})
				r.host.arm(fault{nth: k, block: make(chan struct{}), hook: func() { close(reached) }})
				result := make(chan error, 1)
				go func() { result <- call(ctx, r.Provider) }()
				<-reached
				cancel()
				select {
				case err := <-result:
					wantCanceled(t, err)
				case <-time.After(time.Second):
					t.Fatalf("no return within a second of the end of ctx; call %d (%v) hangs", k, r.host.recorded()[k-1])
				}
			}
		})
	}
	t.Run("while another call holds the name", func(t *testing.T) {
		r := created(t)
		reached, goOn := make(chan struct{}), make(chan struct{})
		r.host.arm(fault{method: "DomainDestroy", entered: reached, block: goOn})
		first := make(chan error, 1)
		go func() { first <- r.Delete(t.Context(), testID) }()
		<-reached
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := r.Delete(ctx, testID); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, provider.ErrTransient) {
			t.Errorf("waiting for the name ends with %v, want the deadline as Transient", err)
		}
		close(goOn)
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

func wantCanceled(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, context.Canceled) || !errors.Is(err, provider.ErrTransient) {
		t.Errorf("error %v, want the context's end as Transient", err)
	}
}

func TestProvider_everyErrorIsWrappedWithConfiguredName(t *testing.T) {
	endings := map[string]fault{
		"libvirt answers": {err: virErr(libvirt.ErrInternalError, "internal error: no")},
		"denied":          {err: virErr(libvirt.ErrAccessDenied, "access denied")},
		"no domain":       {err: virErr(libvirt.ErrNoDomain, "Domain not found")},
		"no volume":       {err: virErr(libvirt.ErrNoStorageVol, "Storage volume not found")},
		"no pool":         {err: virErr(libvirt.ErrNoStoragePool, "Storage pool not found")},
		"connection dies": {drop: true},
		"something else":  {err: errors.New("unheard of")},
	}
	for name, call := range methods() {
		for ending, cut := range endings {
			t.Run(name+", "+ending, func(t *testing.T) {
				for k := 1; ; k++ {
					r := created(t)
					cut.nth = k
					r.host.arm(cut)
					err := call(t.Context(), r.Provider)
					if len(r.host.recorded()) < k {
						break // that many calls are not made
					}
					if err != nil {
						wantWhole(t, err, name != "list" && name != "get")
					}
				}
			})
		}
	}
}

// wantWhole checks what holds for every error of the contract's section 8.1.
func wantWhole(t *testing.T, err error, neverNotFound bool) {
	t.Helper()
	var typed *provider.Error
	if !errors.As(err, &typed) || typed.Provider != testEntry || typed.Reason == "" {
		t.Errorf("error %v is not a *provider.Error with name and reason", err)
	}
	if !strings.HasPrefix(err.Error(), testEntry+": ") || strings.Count(err.Error(), testEntry+": ") != 1 {
		t.Errorf("error %q does not begin with the entry's name, once", err)
	}
	if !strings.Contains(err.Error(), "beelink") {
		t.Errorf("error %q does not name the host", err)
	}
	classes := 0
	for _, class := range []error{provider.ErrNotFound, provider.ErrTransient, provider.ErrPermanent, provider.ErrQuotaExceeded} {
		if errors.Is(err, class) {
			classes++
		}
	}
	if classes != 1 {
		t.Errorf("error %v matches %d classes, want one", err, classes)
	}
	if neverNotFound && errors.Is(err, provider.ErrNotFound) {
		t.Errorf("error %v is NotFound", err)
	}
}

func TestLogging_v0SilentV1OutcomeV2Detail(t *testing.T) {
	run := func(verbosity int) string {
		r := newRig(t)
		p := providerOn(t, observingDialer{r.dialer}, r.host)
		var log logLines
		ctx := contextWithLog(t, log.logger(verbosity))
		for _, step := range []func() error{
			func() error { _, err := p.Create(ctx, testRequest()); return err },
			func() error { _, err := p.Get(ctx, testID); return err },
			func() error { _, err := p.ListByTag(ctx); return err },
			func() error { p.Check(ctx); return nil },
			func() error { return p.Delete(ctx, testID) },
		} {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := p.Get(ctx, testID); err == nil {
			t.Fatal("the instance must be gone")
		}
		return log.text()
	}
	if got := run(0); got != "" {
		t.Errorf("V(0) is for what somebody must look at; normal work wrote:\n%s", got)
	}
	outcomes := []string{"instance runs", "instance read", "instances listed", "host checked", "instance is gone", "kvm2.DomainCreate"}
	details := []string{"cloudInitBytes", `"bytes"`}
	v1, v2 := run(1), run(2)
	for _, text := range outcomes {
		if !strings.Contains(v1, text) {
			t.Errorf("V(1) lacks the outcome %q:\n%s", text, v1)
		}
	}
	for _, text := range details {
		if strings.Contains(v1, text) {
			t.Errorf("V(1) holds the detail %q", text)
		}
		if !strings.Contains(v2, text) {
			t.Errorf("V(2) lacks the detail %q", text)
		}
	}
	if !strings.Contains(v1, testEntry) {
		t.Error("lines do not name the entry")
	}
}

// Where the context has no logger, the one of the options is used.
func TestLogging_optionsLoggerWithoutOneInTheContext(t *testing.T) {
	h := newFakeHost("beelink")
	cacheTestImage(t, h)
	var log logLines
	p := newProvider(testConfig(t, h), provider.Options{Owner: testOwner, Log: log.logger(1)}, newFakeDialer(h))
	defer func() { _ = p.Close() }()
	if _, err := p.ListByTag(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.text(), "instances listed") {
		t.Errorf("log %q, want the outcome", log.text())
	}
}
