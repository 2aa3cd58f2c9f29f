// Package controlplane starts a real etcd, kube-apiserver and kube-controller-manager on loopback, for
// tests and for the demo. The binaries are those of bin/k8s (make k8s).
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Options of Start. The zero value starts etcd and kube-apiserver with the project's CRDs.
type Options struct {
	// ControllerManager starts kube-controller-manager too: without it owned objects are not collected,
	// namespaces not emptied and ServiceAccounts not made.
	ControllerManager bool
	// WithoutCRDs leaves the project's CRDs out.
	WithoutCRDs bool
	// Log gets what the processes print on standard error.
	Log io.Writer
}

// ControlPlane is running. End it with Stop.
type ControlPlane struct {
	// Config is an administrator's.
	Config *rest.Config
	// Kubeconfig is the same as a file's content.
	Kubeconfig []byte

	env     *envtest.Environment
	manager *exec.Cmd
}

// Start starts a control plane; it takes about 5 seconds. The binaries are taken from
// KUBEBUILDER_ASSETS, else from bin/k8s of this checkout.
func Start(ctx context.Context, opts Options) (*ControlPlane, error) {
	assets, err := Assets()
	if err != nil {
		return nil, err
	}
	env := &envtest.Environment{
		BinaryAssetsDirectory:    assets,
		ControlPlaneStartTimeout: time.Minute,
		ControlPlaneStopTimeout:  time.Minute,
		ErrorIfCRDPathMissing:    true,
	}
	if !opts.WithoutCRDs {
		checkout, err := root()
		if err != nil {
			return nil, err
		}
		env.CRDDirectoryPaths = []string{filepath.Join(checkout, "config", "crd", "bases")}
	}
	server := env.ControlPlane.GetAPIServer()
	server.Err = opts.Log
	// Without a default route kube-apiserver finds no address to advertise, and ends.
	server.Configure().Set("advertise-address", "127.0.0.1").Set("endpoint-reconciler-type", "none")
	cfg, err := env.Start()
	if err != nil {
		return nil, fmt.Errorf("start the control plane: %w", errors.Join(err, env.Stop()))
	}
	c := &ControlPlane{Config: cfg, Kubeconfig: env.KubeConfig, env: env}
	if opts.ControllerManager {
		if err := c.startManager(ctx, assets, server.CertDir, opts.Log); err != nil {
			return nil, errors.Join(err, c.Stop())
		}
	}
	return c, nil
}

// startManager starts kube-controller-manager beside the API server.
func (c *ControlPlane) startManager(ctx context.Context, assets, certDir string, log io.Writer) error {
	kubeconfig := filepath.Join(certDir, "controller-manager.kubeconfig")
	if err := os.WriteFile(kubeconfig, c.Kubeconfig, 0o600); err != nil {
		return fmt.Errorf("kube-controller-manager: %w", err)
	}
	c.manager = exec.CommandContext(ctx, filepath.Join(assets, "kube-controller-manager"), //nolint:gosec // the project's own build
		"--kubeconfig="+kubeconfig,
		"--service-account-private-key-file="+filepath.Join(certDir, "sa-signer.key"),
		"--leader-elect=false",
		"--secure-port=0",
		"--controllers=*,-node-ipam-controller",
		"--flex-volume-plugin-dir="+certDir,
	)
	c.manager.Stderr = log
	if err := c.manager.Start(); err != nil {
		c.manager = nil
		return fmt.Errorf("start kube-controller-manager: %w", err)
	}
	return nil
}

// ConfigFor gives a config that logs in with a bearer token, such as a ServiceAccount's.
func (c *ControlPlane) ConfigFor(token string) *rest.Config {
	cfg := rest.AnonymousClientConfig(c.Config)
	cfg.BearerToken = token
	return cfg
}

// Stop ends everything, kube-controller-manager first.
func (c *ControlPlane) Stop() error {
	var errs []error
	if c.manager != nil {
		errs = append(errs, c.manager.Process.Kill())
		_ = c.manager.Wait() // killed: its exit status says so
	}
	return errors.Join(append(errs, c.env.Stop())...)
}

// Assets is the directory of the binaries, and an error that says how to make it.
func Assets() (string, error) {
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if dir == "" {
		checkout, err := root()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(checkout, "bin", "k8s")
	}
	if _, err := os.Stat(filepath.Join(dir, "kube-apiserver")); err != nil {
		return "", fmt.Errorf("the control plane's binaries are missing in %s: run 'make k8s', or set KUBEBUILDER_ASSETS", dir)
	}
	return dir, nil
}

// root is the checkout that the working directory lies in.
func root() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "hack", "k8s", "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s lies in no checkout of this project", start)
		}
	}
}
