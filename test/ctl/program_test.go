//go:build integration

package ctl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// program is the path of the egressctl that TestMain built.
var program string

func TestMain(m *testing.M) {
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "egressctl-test-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	program = filepath.Join(dir, "egressctl")
	build := exec.Command("go", "build", "-o", program, "../../cmd/egressctl")
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build egressctl: %w\n%s", err, out)
	}
	return m.Run(), nil
}

// user is someone with a providers file and a state directory of their own.
type user struct {
	config, state string
}

// newUser makes one whose providers file has a single entry, kvm2-lab, with the host of the lab and
// one image, changed by the caller.
func (l lab) newUser(t *testing.T, pool string, img image, change func(*provider.KVMConfig)) user {
	t.Helper()
	c := &provider.KVMConfig{
		Hosts: []provider.KVMHost{{
			Name: host, Address: l["KVM2_TEST_HOST"], Port: 22, User: l["KVM2_TEST_USER"],
			Socket: l["KVM2_TEST_SOCKET"], Pool: pool, Bridge: l["KVM2_TEST_BRIDGE"],
		}},
		SSHKeyFile: l["KVM2_TEST_SSH_KEY"], KnownHostsFile: l["KVM2_TEST_KNOWN_HOSTS"],
		MachineTypes: map[string]provider.KVMMachineType{"tiny": {VCPUs: 1, MemoryMiB: 128, DiskSizeGb: 1}},
		Images: map[string]provider.KVMImage{
			"tiny": {URL: l.url(img, ""), SHA256: img.sha256, Firmware: provider.FirmwareBIOS, Format: provider.FormatQCOW2},
		},
	}
	change(c)
	data, err := yaml.Marshal(provider.Config{
		CheckURL:  l["LAB_ORIGIN_URL"],
		Providers: []provider.Entry{{Name: "kvm2-lab", Type: provider.TypeKVM2, KVM2: c}},
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	u := user{config: filepath.Join(dir, "providers.yaml"), state: filepath.Join(dir, "state")}
	if err := os.WriteFile(u.config, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return u
}

// ended is how a run of egressctl ended.
type ended struct {
	stdout, stderr string
	code           int // -1 when it was killed
	took           time.Duration
}

// run runs egressctl to its end, or kills it when ctx ends.
func (u user) run(ctx context.Context, t *testing.T, args ...string) ended {
	t.Helper()
	return u.runWith(ctx, t, func(*exec.Cmd) {}, args...)
}

func (u user) runWith(ctx context.Context, t *testing.T, change func(*exec.Cmd), args ...string) ended {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "EGRESSCTL_CONFIG="+u.config, "EGRESSCTL_STATE_DIR="+u.state)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	change(cmd)
	began := time.Now()
	err := cmd.Run()
	took := time.Since(began)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && ctx.Err() == nil {
		t.Errorf("run egressctl: %v", err)
	}
	return ended{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode(), took}
}

// must runs egressctl and ends the test when it does not end well.
func (u user) must(t *testing.T, args ...string) ended {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*patience)
	defer cancel()
	e := u.run(ctx, t, args...)
	if e.code != 0 {
		t.Fatalf("egressctl %v ended with %d\n%s%s", args, e.code, e.stdout, e.stderr)
	}
	return e
}

// create is the command line for a VM that need not boot.
func create(name string) []string {
	return []string{"create", name, "--allow-source", "198.51.100.0/24", "--no-wait"}
}

// signal runs egressctl and sends it a signal some time after its start.
func (u user) signal(ctx context.Context, t *testing.T, sig os.Signal, after time.Duration, args ...string) ended {
	t.Helper()
	timed, cancel := context.WithTimeout(ctx, after)
	defer cancel()
	return u.runWith(timed, t, func(cmd *exec.Cmd) {
		cmd.Cancel = func() error { return cmd.Process.Signal(sig) }
		cmd.WaitDelay = patience
	}, args...)
}
