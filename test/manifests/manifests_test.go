//go:build integration

// Package manifests proves that what `kubectl apply -k` would send is taken by a real API server.
package manifests

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/test/controlplane"
)

const root = "../.."

func TestManifests_serverSideDryRun(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{WithoutCRDs: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, plane.Kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl := func(input []byte, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(root, "bin", "k8s", "kubectl"), append([]string{"--kubeconfig", kubeconfig}, args...)...)
		cmd.Stdin = bytes.NewReader(input)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	// The namespace and the CRDs must exist before what uses them is tried.
	kubectl(nil, "apply", "--server-side", "-f", filepath.Join(root, "config", "manager", "namespace.yaml"))
	kubectl(build(t, "crd"), "apply", "--server-side", "-f", "-")
	kubectl(nil, "wait", "--for=condition=Established", "--timeout=60s", "crd/proxies.egress.hrajfrisbee.cz", "crd/providerhealths.egress.hrajfrisbee.cz")
	for _, dir := range []string{"default", "samples", "crd", "rbac", "manager"} {
		t.Run(dir, func(t *testing.T) {
			kubectl(build(t, dir), "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
		})
	}
}

// build gives what kustomize makes of a directory under config.
func build(t *testing.T, dir string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "tool", "-modfile=tools/go.mod", "kustomize", "build", "config/"+dir)
	cmd.Dir = root
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kustomize build config/%s: %v\n%s", dir, err, problems.String())
	}
	return out
}
