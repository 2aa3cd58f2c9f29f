//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/test/controlplane"
)

const root = "../.."

// story is a control plane, the operator beside it, and the lab that is up already.
type story struct {
	api client.Client
	dir string
}

func start(t *testing.T) *story {
	t.Helper()
	if os.Getenv("LAB_PROVIDERS") == "" {
		t.Fatal("no lab: run 'make lab-up', then 'make test-e2e'")
	}
	plane, err := controlplane.Start(context.WithoutCancel(t.Context()), controlplane.Options{ControllerManager: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Errorf("stop the control plane: %v", err)
		}
	})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	api, err := client.New(plane.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	s := &story{api: api, dir: t.TempDir()}
	for _, file := range []string{"manager/namespace", "rbac/service_account", "rbac/role", "rbac/role_binding"} {
		s.applyFile(t, filepath.Join(root, "config", file+".yaml"))
	}
	s.runOperator(t, plane)
	return s
}

func (s *story) applyFile(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for doc := range strings.SplitSeq(string(data), "\n---\n") {
		var object unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(doc), &object.Object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		s.create(t, &object)
	}
}

// runOperator starts bin/operator with nothing but its ServiceAccount's token, and the lab's entry under
// the name that the samples use.
func (s *story) runOperator(t *testing.T, plane *controlplane.ControlPlane) {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "egress-system", Name: "egress-proxies-operator"}}
	if err := s.api.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["e2e"] = &clientcmdapi.Cluster{Server: plane.Config.Host, CertificateAuthorityData: plane.Config.CAData}
	config.AuthInfos["operator"] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	config.Contexts["e2e"] = &clientcmdapi.Context{Cluster: "e2e", AuthInfo: "operator"}
	config.CurrentContext = "e2e"
	kubeconfig := filepath.Join(s.dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	providers, err := os.ReadFile(os.Getenv("LAB_PROVIDERS"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(s.dir, "providers.yaml")
	if err := os.WriteFile(file, bytes.Replace(providers, []byte("name: lab\n"), []byte("name: "+entry+"\n"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(s.dir, "operator.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(root, "bin", "operator"), "--config="+file, "--v=1", "--log-format=text",
		"--metrics-bind-address=0", "--health-probe-bind-address=0", "--check-interval=10s")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "POD_NAMESPACE=egress-system")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: run 'make build' first", err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("the operator is not there any more: %v", err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the operator must end in peace when told to: %v\n%s", err, s.operatorLog())
		}
	})
}

func (s *story) operatorLog() string {
	data, err := os.ReadFile(filepath.Join(s.dir, "operator.log"))
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-8000):])
}

func (s *story) create(t *testing.T, o client.Object) {
	t.Helper()
	if err := s.api.Create(t.Context(), o); err != nil {
		t.Fatalf("create %s: %v", o.GetName(), err)
	}
}

func (s *story) delete(t *testing.T, name string) {
	t.Helper()
	if err := s.api.Delete(t.Context(), s.proxy(name)); err != nil {
		t.Fatal(err)
	}
}

// proxy is a Proxy on the lab's first host.
func (s *story) proxy(name string) *v1alpha1.Proxy {
	return &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1alpha1.ProxySpec{
			Provider:                   entry,
			Placement:                  v1alpha1.Placement{Zone: "kvm1", MachineType: "small", Image: "egress"},
			Auth:                       &v1alpha1.ProxyAuth{SecretRef: v1alpha1.SecretReference{Name: "berlin-1-auth"}},
			AllowedPrivateDestinations: []string{os.Getenv("LAB_ORIGIN_CIDR")},
		},
	}
}

// eventually asks until ok says yes.
func (s *story) eventually(t *testing.T, what string, limit time.Duration, ok func(context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for !ok(ctx) {
		select {
		case <-ctx.Done():
			var all v1alpha1.ProxyList
			_ = s.api.List(t.Context(), &all) // to say more, where it works
			t.Fatalf("within %s not: %s\nProxies: %+v", limit, what, all.Items)
		case <-ticker.C:
		}
	}
}

func (s *story) untilGone(t *testing.T, name string) {
	t.Helper()
	s.eventually(t, name+" is gone", deleteLimit, func(ctx context.Context) bool {
		err := s.api.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, &v1alpha1.Proxy{})
		return apierrors.IsNotFound(err)
	})
}

// nothingLeft looks at the host itself: no domain of ours, and of the pool only base and marker.
func (s *story) nothingLeft(t *testing.T) {
	t.Helper()
	for _, query := range []string{"list --all --name", "vol-list default"} {
		args := append([]string{"shell", "kvm1", "--", "virsh", "--quiet"}, strings.Fields(query)...)
		out, err := exec.CommandContext(t.Context(), filepath.Join(root, "test", "lab", "lab"), args...).CombinedOutput()
		if err != nil {
			t.Fatalf("virsh %s: %v: %s", query, err, out)
		}
		if strings.Contains(string(out), "proxy-") {
			t.Errorf("virsh %s still shows:\n%s", query, out)
		}
	}
}
