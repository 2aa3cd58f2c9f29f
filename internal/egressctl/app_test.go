package egressctl_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/probe"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/fake"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/static"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// owner is the identity of the tests' state directory.
const owner = "3f8c2c8e-0b0c-4c5e-9a53-6d7a3a1f9d10"

// desk is a shell with a providers file, a state directory and hosts behind it.
type desk struct {
	t       *testing.T
	backend *fake.Backend
	dir     string
	env     map[string]string
	stdin   string
	in      io.Reader // instead of stdin
	// probe answers for the proxy.
	probe func(probe.Options) (probe.Result, error)
	// wrap changes the providers that are built.
	wrap func(*fake.Provider) provider.Provider
}

// egress is the address that the proxies of the tests leave from.
const egress = "203.0.113.7"

// newDesk has one entry, kvm2-home, whose hosts are given; its proxies serve at once. There is no check
// URL, so that no hash is made where a test needs none.
func newDesk(t *testing.T, hosts ...string) *desk {
	t.Helper()
	d := &desk{
		t: t, backend: fake.NewBackend(), dir: t.TempDir(), env: map[string]string{},
		probe: func(probe.Options) (probe.Result, error) {
			return probe.Result{EgressIP: netip.MustParseAddr(egress)}, nil
		},
		wrap: func(p *fake.Provider) provider.Provider { return p },
	}
	d.env["EGRESSCTL_CONFIG"] = filepath.Join(d.dir, "providers.yaml")
	d.env["EGRESSCTL_STATE_DIR"] = filepath.Join(d.dir, "state")
	d.write("providers.yaml", "checkURL: none\nproviders:\n"+entry("kvm2-home", hosts...))
	d.write("state/owner", owner+"\n")
	return d
}

const checkURL = "https://check.example.net/"

// checked gives the desk a check URL.
func (d *desk) checked() *desk {
	d.write("providers.yaml", strings.Replace(d.read("providers.yaml"), "checkURL: none", "checkURL: "+checkURL, 1))
	return d
}

// entry is an entry of a providers file.
func entry(name string, hosts ...string) string {
	var b strings.Builder
	b.WriteString("- name: " + name + "\n  type: kvm2\n  kvm2:\n    hosts:\n")
	for _, h := range hosts {
		b.WriteString("    - {name: " + h + ", address: " + h + ".example.net, user: egress}\n")
	}
	b.WriteString(`    sshKeyFile: /etc/egress/id_ed25519
    knownHostsFile: /etc/egress/known_hosts
    machineTypes:
      small: {vcpus: 1, memoryMiB: 512, diskSizeGb: 4}
    images:
      trixie: {url: "https://images.example.net/trixie.qcow2", sha256: ` + strings.Repeat("0a", 32) + `}
`)
	return b.String()
}

// write puts a file below the desk's directory and gives its path.
func (d *desk) write(name, content string) string {
	d.t.Helper()
	path := filepath.Join(d.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		d.t.Fatal(err)
	}
	return path
}

// ended is how a run ended.
type ended struct {
	out, err string
	code     int
}

// run runs egressctl with no terminal.
func (d *desk) run(args ...string) ended { return d.runIn(d.t.Context(), args...) }

func (d *desk) runIn(ctx context.Context, args ...string) ended {
	var out, errs bytes.Buffer
	app := egressctl.App{
		Registry: provider.Registry{provider.TypeKVM2: d.factory, provider.TypeStatic: static.New},
		Axes:     map[string]map[string]string{provider.TypeKVM2: fake.Axes(), provider.TypeStatic: static.Axes()},
		In:       d.input(), Out: &out, Err: &errs,
		Getenv:  func(key string) string { return d.env[key] },
		Probe:   func(_ context.Context, r probe.Options) (probe.Result, error) { return d.probe(r) },
		Version: "v1.2.3",
	}
	code := app.Run(ctx, args)
	return ended{out.String(), errs.String(), code}
}

func (d *desk) input() io.Reader {
	if d.in != nil {
		return d.in
	}
	return strings.NewReader(d.stdin)
}

func (d *desk) factory(e provider.Entry, opts provider.Options) (provider.Provider, error) {
	p, err := fake.FactoryOver(d.backend)(e, opts)
	if err != nil {
		return nil, err
	}
	inner, ok := p.(*fake.Provider)
	if !ok {
		return nil, errors.New("the fake's factory gave something else")
	}
	return d.wrap(inner), nil
}

// must runs egressctl and ends the test when the code is not 0.
func (d *desk) must(args ...string) ended {
	d.t.Helper()
	e := d.run(args...)
	if e.code != egressctl.CodeOK {
		d.t.Fatalf("egressctl %q ended with %d:\n%s%s", args, e.code, e.out, e.err)
	}
	return e
}

// open is the shortest create of a proxy for one network.
func open(name string, more ...string) []string {
	return append([]string{"create", name, "--allow-source", "198.51.100.0/24", "-q"}, more...)
}

// idOf is the ID of an instance of the tests' owner.
func idOf(entry, zone, name string) string {
	uid := provider.UIDFor(owner, entry, name)
	return fake.ID(zone, provider.InstanceName(owner, "egressctl/"+name, uid))
}

// wantFailure checks the code and that there is one sentence on standard error with all parts, and
// nothing on standard output.
func wantFailure(t *testing.T, e ended, code int, parts ...string) {
	t.Helper()
	if e.code != code {
		t.Errorf("exit code %d, want %d", e.code, code)
	}
	sentence := strings.TrimSuffix(e.err, "\n")
	if !strings.HasPrefix(sentence, "egressctl: ") || strings.Contains(sentence, "\n") {
		t.Errorf("standard error is not one sentence of egressctl's: %q", e.err)
	}
	for _, part := range parts {
		if !strings.Contains(sentence, part) {
			t.Errorf("the sentence does not say %q: %q", part, sentence)
		}
	}
	if e.out != "" {
		t.Errorf("standard output is for results, it has %q", e.out)
	}
}
