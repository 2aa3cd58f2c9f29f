package kvm2

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

const (
	testEntry = "kvm2-home"
	testOwner = "installation-a"
	otherUID  = "5a1c2b3d-1111-4222-8333-444455556666"
	testName  = "proxy-a1b2c3-berlin-1-0a1b2c3d"
	testID    = "hosts/beelink/domains/" + testName
	testPool  = provider.DefaultPool
)

// rig is a provider on fake hosts.
type rig struct {
	*Provider
	dialer *fakeDialer
	host   *fakeHost // the first one
}

// newRig builds a provider on the named hosts; with none, on beelink. Its base image is cached.
func newRig(t *testing.T, names ...string) *rig {
	t.Helper()
	if len(names) == 0 {
		names = []string{"beelink"}
	}
	var hosts []*fakeHost
	for _, name := range names {
		h := newFakeHost(name)
		cacheTestImage(t, h)
		hosts = append(hosts, h)
	}
	return rigOn(t, hosts...)
}

// rigOn builds another provider on hosts that exist: the process was started again.
func rigOn(t *testing.T, hosts ...*fakeHost) *rig {
	t.Helper()
	d := newFakeDialer(hosts...)
	return &rig{Provider: providerOn(t, d, hosts...), dialer: d, host: hosts[0]}
}

func providerOn(t *testing.T, d dialer, hosts ...*fakeHost) *Provider {
	t.Helper()
	p := newProvider(testConfig(t, hosts...), provider.Options{Owner: testOwner, Log: logr.Discard()}, d)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

func testConfig(t *testing.T, hosts ...*fakeHost) provider.Entry {
	t.Helper()
	config := &provider.KVMConfig{
		MachineTypes: map[string]provider.KVMMachineType{"small": {VCPUs: 1, MemoryMiB: 512, DiskSizeGb: 4}},
		Images:       map[string]provider.KVMImage{"egress": testImage(t)},
	}
	for _, h := range hosts {
		config.Hosts = append(config.Hosts, provider.KVMHost{
			Name: h.name, Address: h.name + ".example.net", User: "operator", Port: provider.DefaultSSHPort,
			Socket: provider.DefaultSocket, Pool: provider.DefaultPool, Bridge: provider.DefaultBridge,
		})
	}
	return provider.Entry{Name: testEntry, Type: provider.TypeKVM2, KVM2: config}
}

// testRequest is a valid request for beelink.
func testRequest(modify ...func(*provider.CreateRequest)) provider.CreateRequest {
	req := provider.CreateRequest{
		Name: testName, UID: testUID, Owner: testOwner, Ref: "egress/berlin-1",
		Placement: provider.Placement{Zone: "beelink", MachineType: "small", Image: "egress"},
		CloudInit: provider.Secret("#cloud-config\n"),
	}
	for _, m := range modify {
		m(&req)
	}
	return req
}

// mustCreate creates or ends the test.
func (r *rig) mustCreate(t *testing.T, req provider.CreateRequest) string {
	t.Helper()
	id, err := r.Create(t.Context(), req)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	return id
}

// own gives the names of the pool's volumes that begin with the instance's name, base and marker left out.
func own(h *fakeHost) []string {
	return slices.DeleteFunc(h.volumeNames(testPool), func(name string) bool { return !strings.HasPrefix(name, testName) })
}

// shared gives the names of the other volumes, base and marker, without the attempt in a base's name.
func shared(h *fakeHost) []string {
	var out []string
	for _, name := range h.volumeNames(testPool) {
		if !strings.HasPrefix(name, testName) {
			out = append(out, attemptInName.ReplaceAllString(name, "-attempt.qcow2"))
		}
	}
	return out
}

var attemptInName = regexp.MustCompile(`-[0-9a-f]{24}\.qcow2$`)

// bothVolumes are what an instance has in the pool.
func bothVolumes() []string { return []string{seedName(testName), overlayName(testName)} }

// startedVolumes are those, and the log of a domain that was started.
func startedVolumes() []string { return append([]string{consoleLogName(testName)}, bothVolumes()...) }

// markedXML is a domain as somebody with virsh could define it, with the mark given, or none.
func markedXML(t *testing.T, name, id string, m *mark) string {
	t.Helper()
	metadata := ""
	if m != nil {
		var err error
		if metadata, err = m.format(); err != nil {
			t.Fatalf("format the mark: %v", err)
		}
	}
	return fakeDomainXML(name, id, metadata)
}

// wantErr checks class, reason and configured name of an error.
func wantErr(t *testing.T, err error, class error, reason string) {
	t.Helper()
	if !errors.Is(err, class) {
		t.Errorf("error %v is of class %v, want %v", err, provider.ClassOf(err), class)
	}
	if got := provider.ReasonOf(err); got != reason {
		t.Errorf("error %v has the reason %s, want %s", err, got, reason)
	}
	if err != nil && !strings.HasPrefix(err.Error(), testEntry+": ") {
		t.Errorf("error %q does not begin with the entry's name", err)
	}
}

// text is everything that was logged.
func (l *logLines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// observingDialer decorates connections as the real one does.
type observingDialer struct{ dialer }

type observingLink struct {
	link
	host string
}

func (d observingDialer) Dial(ctx context.Context, host provider.KVMHost) (link, error) {
	l, err := d.dialer.Dial(ctx, host)
	if err != nil {
		return nil, err
	}
	return observingLink{l, host.Name}, nil
}

func (l observingLink) Open(ctx context.Context) (conn, error) {
	c, err := l.link.Open(ctx)
	if err != nil {
		return nil, err
	}
	return observe(c, logr.Discard(), l.host), nil
}

// writes are the calls that change something.
func writes(calls []fakeCall) []string {
	var out []string
	for _, c := range calls {
		switch c.Method {
		case "DomainDefineXML", "DomainCreate", "DomainDestroy", "DomainUndefineFlags", "DomainSetAutostart",
			"StorageVolCreateXML", "StorageVolUpload", "StorageVolDelete":
			out = append(out, fmt.Sprintf("%s %s", c.Method, c.Arg))
		}
	}
	return out
}
