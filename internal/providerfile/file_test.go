package providerfile_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/fake"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/providerfile"
)

// mount is a directory as the kubelet mounts a ConfigMap: the file is a symbolic link through ..data,
// and a change puts another ..data in its place.
type mount struct {
	t       *testing.T
	dir     string
	version int
}

func (m *mount) write(content string) {
	m.t.Helper()
	m.version++
	version := filepath.Join(m.dir, "..v"+string(rune('0'+m.version)))
	for _, err := range []error{
		os.Mkdir(version, 0o700),
		os.WriteFile(filepath.Join(version, "providers.yaml"), []byte(content), 0o600),
		os.Symlink(version, filepath.Join(m.dir, "..new")),
		os.Rename(filepath.Join(m.dir, "..new"), filepath.Join(m.dir, "..data")),
	} {
		if err != nil {
			m.t.Fatal(err)
		}
	}
}

func (m *mount) path() string { return filepath.Join(m.dir, "providers.yaml") }

func newMount(t *testing.T) *mount {
	t.Helper()
	m := &mount{t: t, dir: t.TempDir()}
	if err := os.Symlink(filepath.Join("..data", "providers.yaml"), m.path()); err != nil {
		t.Fatal(err)
	}
	return m
}

func entries(names ...string) string {
	out := strings.Builder{}
	out.WriteString("checkURL: none\nproviders:\n")
	for _, name := range names {
		out.WriteString("- {name: " + name + `, type: kvm2, kvm2: {hosts: [{name: a, address: kvm.example.net, user: egress, bridge: br0}],
   sshKeyFile: /k, knownHostsFile: /h, machineTypes: {small: {vcpus: 1, memoryMiB: 512, diskSizeGb: 10}},
   images: {d: {url: "https://example.net/d.qcow2", sha256: "` + strings.Repeat("a", 64) + "\"}}}}\n")
	}
	return out.String()
}

// rig is a File on a mount. Each change that it tells of ends up in told.
type rig struct {
	mount *mount
	file  *providerfile.File
	mu    sync.Mutex
	told  [][]string
	log   []string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{mount: newMount(t)}
	build := func(e provider.Entry, _ provider.Options) (provider.Provider, error) { return fake.New(e.Name), nil }
	r.file = &providerfile.File{
		Path: r.mount.path(), Every: time.Second,
		Set: provider.NewSet(provider.Registry{provider.TypeKVM2: build}, provider.Options{Log: logr.Discard()}),
		Changed: func(entries []string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.told = append(r.told, entries)
		},
		Log: funcr.New(func(_, args string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.log = append(r.log, args)
		}, funcr.Options{}),
	}
	return r
}

// run lets the file be looked at in a bubble, where a look a second takes no time. step waits for one.
func (r *rig) run(t *testing.T, test func(t *testing.T, step func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		go func() { ended <- r.file.Start(t.Context()) }()
		test(t, func() {
			<-time.After(r.file.Every) // the bubble's time
			synctest.Wait()
		})
	})
}

func TestFile_aChangeIsTakenOverOnce(t *testing.T) {
	r := newRig(t)
	r.mount.write(entries("one"))
	if err := r.file.Load(); err != nil {
		t.Fatal(err)
	}
	r.run(t, func(t *testing.T, step func()) {
		step()
		if r.told != nil {
			t.Errorf("nothing changed, and %v was told", r.told)
		}
		r.mount.write(entries("one", "two"))
		step()
		step()
		if len(r.told) != 1 || !slices.Equal(r.told[0], []string{"two"}) {
			t.Errorf("the entry that came is told once, got %v", r.told)
		}
		if got := r.file.Set.Names(); !slices.Equal(got, []string{"one", "two"}) {
			t.Errorf("in use: %v", got)
		}
	})
}

func TestFile_oneThatCannotBeUsedChangesNothing(t *testing.T) {
	cases := map[string]struct{ reason, content string }{
		"NotYAML":    {"a file that is being edited", "providers: ["},
		"NoCheckURL": {"the check URL is required", "providers: []\n"},
		"Empty":      {"an empty file is no list", ""},
		"TooLarge":   {"a file has an end", strings.Repeat("#", provider.MaxConfig+1)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.mount.write(entries("one"))
			if err := r.file.Load(); err != nil {
				t.Fatal(err)
			}
			r.run(t, func(t *testing.T, step func()) {
				r.mount.write(tc.content)
				step()
				step()
				if err := r.file.Err(); err == nil || len(r.told) != 1 || len(r.log) != 1 {
					t.Errorf("%s: the problem is told and logged once: %v, told %v, logged %q", tc.reason, err, r.told, r.log)
				}
				if got := r.file.Set.Names(); !slices.Equal(got, []string{"one"}) {
					t.Errorf("%s: in use: %v", tc.reason, got)
				}
				r.mount.write(entries("one"))
				step()
				if err := r.file.Err(); err != nil || len(r.told) != 2 {
					t.Errorf("%s: a file that is as it was is in use again, and that is told: %v, told %v", tc.reason, err, r.told)
				}
			})
		})
	}
}

func TestFile_anEntryWithoutANameIsInTheLog(t *testing.T) {
	r := newRig(t)
	r.mount.write(entries("one") + "- {type: kvm2}\n")
	if err := r.file.Load(); err != nil {
		t.Fatal(err)
	}
	if len(r.log) != 1 || !strings.Contains(r.log[0], "providers[1].name") {
		t.Errorf("no ProviderHealth can tell of it, so the log must, with its path: %q", r.log)
	}
}

func TestFile_withoutOneThereIsNothingToWorkWith(t *testing.T) {
	r := newRig(t)
	if err := r.file.Load(); err == nil || !strings.Contains(err.Error(), "providers.yaml") {
		t.Errorf("the error must name the file, got %v", err)
	}
}
