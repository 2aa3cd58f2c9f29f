//go:build e2e

package incluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
)

const (
	root      = "../.."
	namespace = "egress-system"
	operator  = "egress-proxies-operator"
	entry     = "kvm2-home"
	sample    = "berlin-1"

	commandLimit = 3 * time.Minute
	readyLimit   = 10 * time.Minute // a guest that is emulated on a busy machine boots in one or two
	changeLimit  = 3 * time.Minute  // a health check comes once a minute
	deleteLimit  = 2 * time.Minute
)

// story is the node, and what the steps know of each other.
type story struct {
	lab     map[string]string // lab.env
	nodeDir string
	config  *rest.Config
	api     client.Client
	traces  map[string]string // of this machine, before the node
	objects []string          // of the cluster, before the manifests
	applied time.Time         // the sample

	blankImage image // made once
}

func newStory(t *testing.T) *story {
	t.Helper()
	dir := os.Getenv("LAB_DIR")
	if dir == "" || os.Getenv("LAB_PROVIDERS") == "" {
		t.Fatal("no lab: run 'LAB_HOSTS=2 make lab-up', then 'make test-in-cluster'")
	}
	s := &story{lab: map[string]string{}, nodeDir: filepath.Join(dir, "node")}
	for _, line := range os.Environ() {
		if key, value, _ := strings.Cut(line, "="); strings.HasPrefix(key, "LAB_") || strings.HasPrefix(key, "KVM2_TEST_") {
			s.lab[key] = value
		}
	}
	return s
}

// timed says how long a step took, for the document that holds the times.
func (s *story) timed(t *testing.T, step func(*testing.T, *story)) {
	begun := time.Now()
	defer func() { t.Logf("%.1f s", time.Since(begun).Seconds()) }()
	step(t, s)
}

// connect makes the client of the node's API server.
func (s *story) connect(t *testing.T) {
	t.Helper()
	log.SetLogger(logr.Discard()) // the client's library asks for one
	var err error
	if s.config, err = clientcmd.BuildConfigFromFlags("", s.kubeconfig()); err != nil {
		t.Fatal(err)
	}
	s.config.QPS, s.config.Burst = 200, 200
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	if s.api, err = client.New(s.config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
}

func (s *story) kubeconfig() string { return filepath.Join(s.nodeDir, "admin.kubeconfig") }

// run runs a command in the checkout and gives its output.
func run(t *testing.T, stdin string, command ...string) (string, error) {
	t.Helper()
	// A cleanup runs after its test's context has ended; the limit still holds.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = root
	cmd.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func must(t *testing.T, stdin string, command ...string) string {
	t.Helper()
	out, err := run(t, stdin, command...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
	return out
}

// kubectl runs it as an administrator, and shows what was asked and answered.
func (s *story) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out := must(t, "", append([]string{"bin/k8s/kubectl", "--kubeconfig", s.kubeconfig()}, args...)...)
	t.Logf("$ kubectl %s\n%s", strings.Join(args, " "), out)
	return out
}

// apply applies a document; it may hold a secret and is not shown.
func (s *story) apply(t *testing.T, document string) {
	t.Helper()
	must(t, document, "bin/k8s/kubectl", "--kubeconfig", s.kubeconfig(), "apply", "-f", "-")
}

// host runs a command as root inside a host of the lab.
func host(t *testing.T, name string, command ...string) string {
	t.Helper()
	return must(t, "", append([]string{"./test/lab/lab", "shell", name, "--"}, command...)...)
}

// ours lists the domains and volumes of a host that belong to Proxies.
func ours(t *testing.T, name string) []string {
	t.Helper()
	out := host(t, name, "sh", "-c", "virsh --quiet list --all --name && virsh --quiet pool-refresh default > /dev/null && virsh --quiet vol-list default")
	var found []string
	for field := range strings.FieldsSeq(out) {
		if strings.HasPrefix(field, "proxy-") || strings.HasPrefix(field, "kvm2-proxy-") {
			found = append(found, field)
		}
	}
	return found
}

func (s *story) operatorLog() string {
	out, err := exec.Command(filepath.Join(root, "bin", "k8s", "kubectl"), "--kubeconfig", s.kubeconfig(),
		"logs", "-n", namespace, "-l", "app.kubernetes.io/name="+operator, "--tail=60", "--prefix").CombinedOutput()
	if err != nil {
		return err.Error() + "\n" + string(out)
	}
	return string(out)
}

// eventually asks until ok says yes.
func (s *story) eventually(t *testing.T, what string, limit time.Duration, ok func(context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	ticker := time.NewTicker(300 * time.Millisecond)
	defer ticker.Stop()
	for !ok(ctx) {
		select {
		case <-ctx.Done():
			out, _ := run(t, "", "bin/k8s/kubectl", "--kubeconfig", s.kubeconfig(), "get", "pods,eproxy,ph", "-A", "-o", "wide")
			t.Fatalf("within %s not: %s\n%s", limit, what, out)
		case <-ticker.C:
		}
	}
}

// pods gives the operator's Pods that are not being deleted.
func (s *story) pods(ctx context.Context) []corev1.Pod {
	var list corev1.PodList
	if err := s.api.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/name": operator}); err != nil {
		return nil
	}
	var found []corev1.Pod
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			found = append(found, pod)
		}
	}
	return found
}

// ready counts the operator's Pods that are.
func (s *story) ready(ctx context.Context) int {
	n := 0
	for _, pod := range s.pods(ctx) {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				n++
			}
		}
	}
	return n
}

// proxy gives a Proxy of the namespace default.
func (s *story) proxy(ctx context.Context, name string) (*v1alpha1.Proxy, error) {
	var p v1alpha1.Proxy
	err := s.api.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, &p)
	return &p, err
}

// usage is what the kubelet says that the operator's container takes.
type usage struct {
	memoryMiB float64
	cpu       time.Duration // since its start
}

// usage asks the kubelet, by way of the API server.
func (s *story) usage(t *testing.T, pod string) usage {
	t.Helper()
	out := must(t, "", "bin/k8s/kubectl", "--kubeconfig", s.kubeconfig(), "get", "--raw", "/api/v1/nodes/node1/proxy/stats/summary")
	var summary struct {
		Pods []struct {
			PodRef     struct{ Name string }
			Containers []struct {
				CPU    struct{ UsageCoreNanoSeconds int64 }
				Memory struct{ WorkingSetBytes float64 }
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &summary); err != nil {
		t.Fatal(err)
	}
	for _, p := range summary.Pods {
		if p.PodRef.Name == pod && len(p.Containers) == 1 {
			c := p.Containers[0]
			return usage{c.Memory.WorkingSetBytes / (1 << 20), time.Duration(c.CPU.UsageCoreNanoSeconds)}
		}
	}
	t.Fatalf("the kubelet knows no Pod %s", pod)
	return usage{}
}
