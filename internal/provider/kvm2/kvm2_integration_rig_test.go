//go:build integration || lab

package kvm2

import (
	"context"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/uuid"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// integration is a request on the real host that KVM2_TEST_* names.
type integration struct {
	entry   provider.Entry
	host    provider.KVMHost
	timeout time.Duration
	keep    bool
	log     logr.Logger
	request provider.CreateRequest
}

// newIntegration reads the environment. A variable that is missing fails the test: one that passes
// without a host would prove nothing.
func newIntegration(t *testing.T) *integration {
	t.Helper()
	timeout, err := time.ParseDuration(envOr("KVM2_TEST_TIMEOUT", "10m"))
	if err != nil {
		t.Fatalf("KVM2_TEST_TIMEOUT: %v", err)
	}
	verbosity, err := strconv.Atoi(envOr("KVM2_TEST_LOG_LEVEL", "0"))
	if err != nil {
		t.Fatalf("KVM2_TEST_LOG_LEVEL: %v", err)
	}
	host := provider.KVMHost{
		Name: "integration", Address: mustEnv(t, "KVM2_TEST_HOST"), Port: provider.DefaultSSHPort, User: mustEnv(t, "KVM2_TEST_USER"),
		Socket: envOr("KVM2_TEST_SOCKET", provider.DefaultSocket), Pool: envOr("KVM2_TEST_POOL", provider.DefaultPool),
		Bridge: mustEnv(t, "KVM2_TEST_BRIDGE"),
	}
	it := &integration{
		host: host, timeout: timeout,
		keep: os.Getenv("KVM2_TEST_KEEP") != "",
		log:  funcr.New(func(prefix, args string) { t.Log(prefix, args) }, funcr.Options{Verbosity: verbosity}),
		entry: provider.Entry{Name: "kvm2-integration", Type: provider.TypeKVM2, KVM2: &provider.KVMConfig{
			Hosts: []provider.KVMHost{host}, SSHKeyFile: mustEnv(t, "KVM2_TEST_SSH_KEY"), KnownHostsFile: mustEnv(t, "KVM2_TEST_KNOWN_HOSTS"),
			MachineTypes: map[string]provider.KVMMachineType{"small": {VCPUs: 2, MemoryMiB: 1024, DiskSizeGb: 4}},
			Images:       map[string]provider.KVMImage{"image": integrationImage(t)},
		}},
	}
	it.renew()
	return it
}

func integrationImage(t *testing.T) provider.KVMImage {
	t.Helper()
	sum := os.Getenv("KVM2_TEST_IMAGE_SHA256")
	return provider.KVMImage{
		URL: mustEnv(t, "KVM2_TEST_IMAGE_URL"), SHA256: sum, InsecureSkipChecksum: sum == "",
		Firmware: provider.FirmwareUEFI, Format: provider.FormatQCOW2,
	}
}

// renew makes the request one for another instance.
func (it *integration) renew() {
	const owner, ref = "kvm2-integration", "integration/kvm2"
	uid := uuid.New().String()
	it.request = provider.CreateRequest{
		Name: provider.InstanceName(owner, ref, uid), UID: uid, Owner: owner, Ref: ref,
		Placement: provider.Placement{Zone: it.host.Name, MachineType: "small", Image: "image"},
		CloudInit: provider.Secret("#cloud-config\nlocale: false\n"),
	}
}

func mustEnv(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set; see docs/testing.md", name)
	}
	return value
}

func envOr(name, fallback string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return fallback
}

func (it *integration) id() string { return formatProviderID(it.host.Name, it.request.Name) }

// look is an independent look at the host: a connection that the provider knows nothing of.
func (it *integration) look(t *testing.T, see func(ctx context.Context, c conn) error) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // the test's clean-up looks too
	l, err := newSSHDialer(it.entry.KVM2, logr.Discard()).Dial(ctx, it.host)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	defer func() { _ = l.Close() }()
	c, err := l.Open(ctx)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	if err := see(ctx, c); err != nil {
		t.Fatalf("look at the host: %v", err)
	}
}

func (it *integration) domains(t *testing.T) (names []string) {
	t.Helper()
	it.look(t, func(ctx context.Context, c conn) error {
		all, err := c.ConnectListAllDomains(ctx)
		for _, d := range all {
			names = append(names, d.Name)
		}
		return err
	})
	slices.Sort(names)
	return names
}

func (it *integration) volumes(t *testing.T) (names []string) {
	t.Helper()
	it.look(t, func(ctx context.Context, c conn) error {
		p, err := c.StoragePoolLookupByName(ctx, it.host.Pool)
		if err != nil {
			return err
		}
		all, err := c.StoragePoolListAllVolumes(ctx, p)
		for _, v := range all {
			names = append(names, v.Name)
		}
		return err
	})
	slices.Sort(names)
	return names
}
