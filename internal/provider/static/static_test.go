package static

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

func mustCreate(t *testing.T, p *Provider, name string) string {
	t.Helper()
	id, err := p.Create(t.Context(), named("attic", name))
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	return id
}

func TestCreate_leavesFilesForNobodyElse(t *testing.T) {
	r := mustRig(t, 1)
	mustCreate(t, r.operator(), "only")
	err := filepath.WalkDir(r.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == r.root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = fs.ModeDir | 0o700
		}
		if info.Mode() != want {
			t.Errorf("%s has the mode %v, want %v", path, info.Mode(), want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestCreate_outOfRoomIsQuotaExceeded(t *testing.T) {
	r := mustRig(t, 1)
	p := r.operator()
	first := mustCreate(t, p, "first")
	_, err := p.Create(t.Context(), named("attic", "second"))
	if !errors.Is(err, provider.ErrQuotaExceeded) || !strings.Contains(err.Error(), "attic") {
		t.Errorf("Create without a free endpoint gives %v, want QuotaExceeded and the zone's name", err)
	}
	if err := p.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	mustCreate(t, p, "second")
}

// A file that is cut off can only be a temporary one: it takes no endpoint, and goes after an hour.
func TestCreate_temporaryFileOfAKilledProcessIsNoLease(t *testing.T) {
	r := mustRig(t, 2)
	p := r.operator()
	mustCreate(t, p, "first")
	fresh, old := r.path("tmp/fresh"), r.path("tmp/old")
	for _, file := range []string{fresh, old} {
		if err := os.WriteFile(file, []byte(`{"lease": "12`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := time.Now().Add(-2 * abandoned)
	if err := os.Chtimes(old, before, before); err != nil {
		t.Fatal(err)
	}
	mustCreate(t, p, "second")
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old temporary file is still there: %v", err)
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Errorf("the fresh temporary file, which another process may be writing, is gone: %v", err)
	}
}

func TestGet_missingDirectoryProvesNothing(t *testing.T) {
	tests := map[string]struct {
		reason string
		spoil  func(root string) error
	}{
		"no directory": {"it is not mounted below its mount point", os.RemoveAll},
		"empty":        {"it is not mounted on it", func(root string) error { return errors.Join(os.RemoveAll(root), os.Mkdir(root, 0o700)) }},
		"no endpoints": {"half of it is gone", func(root string) error { return os.RemoveAll(filepath.Join(root, "endpoints")) }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := mustRig(t, 1)
			p := r.operator()
			id := mustCreate(t, p, "only")
			if err := tt.spoil(r.root); err != nil {
				t.Fatal(err)
			}
			_, err := p.Get(t.Context(), id)
			if !errors.Is(err, provider.ErrTransient) || provider.ReasonOf(err) != ReasonLeaseDirectoryUnavailable {
				t.Errorf("%s: Get gives %v, want Transient, %s", tt.reason, err, ReasonLeaseDirectoryUnavailable)
			}
		})
	}
}

func TestCreate_neverMakesTheDirectoryItself(t *testing.T) {
	r := mustRig(t, 1)
	if err := os.RemoveAll(r.root); err != nil {
		t.Fatal(err)
	}
	_, err := r.operator().Create(t.Context(), named("attic", "only"))
	if !errors.Is(err, provider.ErrTransient) {
		t.Errorf("Create without the lease directory gives %v, want Transient", err)
	}
	if _, err := os.Stat(r.root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Create made the lease directory, %v", err)
	}
}

// An endpoint that left the entry keeps its lease.
func TestGet_endpointThatLeftTheEntry(t *testing.T) {
	r := mustRig(t, 2)
	id := mustCreate(t, r.operator(), "only")
	r.config.Endpoints = r.config.Endpoints[1:]
	inst, err := r.operator().Get(t.Context(), id)
	if err != nil || inst.State != provider.StateRunning || inst.Addresses[0] != "198.18.0.1" {
		t.Errorf("Get gives %+v, %v, want the endpoint that was leased", inst, err)
	}
}

// stuck is a store of a file system that does not answer, and knows no ctx.
type stuck struct {
	store
	waiting atomic.Int32
	release chan struct{}
}

func (s *stuck) Read(context.Context, string, string) ([]byte, error) {
	s.waiting.Add(1)
	<-s.release
	return nil, errAbsent
}

func TestProvider_cancelledContextReturnsPromptly(t *testing.T) {
	r := mustRig(t, 1)
	hung := &stuck{release: make(chan struct{})}
	defer close(hung.release)
	p := build(entryName, r.config, provider.Options{Owner: ownerName}, newLimited(hung, r.config.Zones()))
	id := place{zone: "attic", name: "only"}.id()
	const calls = 3 * callsPerZone
	for range calls {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		_, err := p.Get(ctx, id) // a Get that waited for its file would end the test by its time limit
		cancel()
		if !errors.Is(err, provider.ErrTransient) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Get of a file system that hangs gives %v, want Transient and DeadlineExceeded", err)
		}
	}
	if n := hung.waiting.Load(); n > callsPerZone {
		t.Errorf("%d calls wait for the file system, want %d at most", n, callsPerZone)
	}
}

func TestRemove_sparesASuccessor(t *testing.T) {
	r := mustRig(t, 1)
	d := directory{r.root}
	const file = "endpoints/192.0.2.1_3128.json"
	steps := []error{
		d.Prepare(t.Context(), ""), d.Make(t.Context(), "", file, []byte("new")),
	}
	if err := errors.Join(steps...); err != nil {
		t.Fatal(err)
	}
	if err := d.Remove(t.Context(), "", file, []byte("old")); !errors.Is(err, errChanged) {
		t.Errorf("Remove of a lease that is another by now gives %v, want errChanged", err)
	}
	got, err := d.Read(t.Context(), "", file)
	if err != nil || string(got) != "new" {
		t.Errorf("the successor is %q, %v", got, err)
	}
	if err := d.Make(t.Context(), "", file, []byte("third")); !errors.Is(err, errExists) {
		t.Errorf("Make over a lease gives %v, want errExists", err)
	}
	if err := d.Remove(t.Context(), "", file, []byte("new")); err != nil {
		t.Errorf("Remove: %v", err)
	}
	if _, err := d.Read(t.Context(), "", file); !errors.Is(err, errAbsent) {
		t.Errorf("Read after Remove gives %v, want errAbsent", err)
	}
}

// What is put into the folders by hand holds nothing up.
func TestRead_ofWhatIsNoLease(t *testing.T) {
	r := mustRig(t, 1)
	d := directory{r.root}
	if err := d.Prepare(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		reason string
		put    func(path string) error
	}{
		"pipe":      {"reading it would wait for a writer", func(path string) error { return syscall.Mkfifo(path, 0o600) }},
		"directory": {"it is no file", func(path string) error { return os.Mkdir(path, 0o700) }},
		"huge":      {"memory has an end", func(path string) error { return os.WriteFile(path, make([]byte, maxLease+1), 0o600) }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if err := tt.put(r.path("endpoints/" + name)); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Read(t.Context(), "", "endpoints/"+name); !errors.Is(err, errUnreadable) {
				t.Errorf("%s: Read gives %v, want errUnreadable", tt.reason, err)
			}
		})
	}
	if list, err := r.operator().ListByTag(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("ListByTag gives %d instances, %v", len(list), err)
	}
}

func TestFirstAddress_filters(t *testing.T) {
	for address, want := range map[string][]string{
		"192.0.2.1": {"192.0.2.1"}, "10.1.2.3": {"10.1.2.3"}, "127.0.0.1": nil, "169.254.1.1": nil, "224.0.0.1": nil,
		"0.0.0.0": nil, "": nil, "2001:db8::1": nil, "proxy.example.org": nil, "../../etc/passwd": nil,
	} {
		if diff := cmp.Diff(want, lease{Address: address}.addresses()); diff != "" {
			t.Errorf("addresses of %q (-want, +got):\n%s", address, diff)
		}
	}
}

func TestClassify_table(t *testing.T) {
	tests := map[string]struct {
		err    error
		class  error
		reason string
	}{
		"unknown":     {errors.New("error 4711"), provider.ErrTransient, provider.ReasonBackendError},
		"stale":       {&fs.PathError{Op: "open", Path: "/l", Err: syscall.ESTALE}, provider.ErrTransient, provider.ReasonBackendError},
		"denied":      {&fs.PathError{Op: "open", Path: "/l", Err: syscall.EACCES}, provider.ErrPermanent, provider.ReasonPermissionDenied},
		"read-only":   {&fs.PathError{Op: "open", Path: "/l", Err: syscall.EROFS}, provider.ErrPermanent, provider.ReasonPermissionDenied},
		"disk full":   {&fs.PathError{Op: "write", Path: "/l", Err: syscall.ENOSPC}, provider.ErrQuotaExceeded, provider.ReasonQuotaExceeded},
		"canceled":    {context.Canceled, provider.ErrTransient, provider.ReasonCanceled},
		"deadline":    {context.DeadlineExceeded, provider.ErrTransient, provider.ReasonTimeout},
		"not mounted": {errNoDirectory, provider.ErrTransient, ReasonLeaseDirectoryUnavailable},
		"spoilt":      {errUnreadable, provider.ErrTransient, ReasonLeaseUnreadable},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := classify("attic", "read", tt.err)
			if provider.ClassOf(err) != tt.class || provider.ReasonOf(err) != tt.reason || !strings.Contains(err.Error(), "attic") { //nolint:errorlint // classes are the sentinels
				t.Errorf("classify gives %v (%s), want %v, %s and the zone", err, provider.ReasonOf(err), tt.class, tt.reason)
			}
		})
	}
}

// refusing is a store whose endpoints of one address refuse.
type refusing struct {
	store
	address string
}

func (s refusing) Dial(_ context.Context, _, address string) error {
	if strings.HasPrefix(address, s.address) {
		return syscall.ECONNREFUSED
	}
	return nil
}

func TestCheck_reasonsTable(t *testing.T) {
	tests := map[string]struct {
		reason string
		dead   string
		spoil  func(root string) error
		want   string
	}{
		"ready":         {"nothing was ever leased there", "none", nil, provider.ReasonReady},
		"endpoint dead": {"a Create could lease it", "198.18.0.2", nil, ReasonEndpointUnreachable},
		"no directory":  {"a Create needs it", "none", os.RemoveAll, ReasonLeaseDirectoryUnavailable},
		"not a folder":  {"a Create needs it", "none", func(root string) error { return os.WriteFile(root+"/instances", nil, 0o600) }, provider.ReasonPermissionDenied},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := mustRig(t, 3)
			if tt.spoil != nil {
				if err := tt.spoil(r.root); err != nil {
					t.Fatal(err)
				}
			}
			p := build(entryName, r.config, provider.Options{Owner: ownerName}, refusing{newLimited(directory{r.root}, r.config.Zones()), tt.dead})
			check := p.Check(t.Context())[0]
			if check.Reason != tt.want || !strings.Contains(check.Message, "attic") {
				t.Errorf("%s: Check gives %s, %q, want %s and the zone", tt.reason, check.Reason, check.Message, tt.want)
			}
			if tt.want == ReasonEndpointUnreachable && !strings.Contains(check.Message, "attic-1") {
				t.Errorf("the message does not name the endpoint: %s", check.Message)
			}
		})
	}
}

func TestDial_asksWhoListens(t *testing.T) {
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := (directory{}).Dial(t.Context(), "", address); err != nil {
		t.Errorf("Dial of a listener: %v", err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := (directory{}).Dial(t.Context(), "", address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("Dial of a port where nobody listens gives %v, want ECONNREFUSED", err)
	}
}

func TestNew_needsItsBlock(t *testing.T) {
	_, err := New(provider.Entry{Name: "racks", Type: provider.TypeStatic}, provider.Options{})
	if !errors.Is(err, provider.ErrPermanent) {
		t.Errorf("New without a block gives %v, want Permanent", err)
	}
}
