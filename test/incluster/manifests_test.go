//go:build e2e

package incluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func shippedManifests(t *testing.T, s *story) {
	s.eventually(t, "the cluster has made its own objects", time.Minute, func(context.Context) bool {
		s.objects = s.everything(t)
		for _, ns := range []string{"default", "kube-node-lease", "kube-public", "kube-system"} {
			if !slices.Contains(s.objects, "ServiceAccount/"+ns+"/default") || !slices.Contains(s.objects, "ConfigMap/"+ns+"/kube-root-ca.crt") {
				return false
			}
		}
		return true
	})
	s.kubectl(t, "apply", "-k", "config/default")
	s.kubectl(t, "wait", "-n", namespace, "--for=condition=Available", "--timeout=120s", "deployment/"+operator)
	s.kubectl(t, "get", "pods", "-n", namespace, "-o", "wide")
}

// podIsRestricted looks at the process itself: what the kernel says of it is what holds.
func podIsRestricted(t *testing.T, s *story) {
	s.privilegedIsRefused(t)
	pod := s.pods(t.Context())[0]
	volumes := map[string]corev1.Volume{}
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = v
	}
	if size := volumes["tmp"].EmptyDir.SizeLimit; size == nil || size.String() != "64Mi" {
		t.Errorf("/tmp must be an emptyDir of 64Mi, its limit is %v", size)
	}

	status := s.operatorFile(t, pod.Name, "status")
	got := map[string]string{}
	for line := range strings.Lines(status) {
		key, value, _ := strings.Cut(line, ":")
		got[key] = strings.Join(strings.Fields(value), " ")
	}
	want := map[string]string{
		"Uid": "65532 65532 65532 65532", "CapEff": "0000000000000000", "CapBnd": "0000000000000000",
		"NoNewPrivs": "1", "Seccomp": "2",
	}
	for key, value := range want {
		if got[key] != value {
			t.Errorf("/proc/PID/status: %s is %q, want %q", key, got[key], value)
		}
	}

	options := map[string][]string{}
	for line := range strings.Lines(s.operatorFile(t, pod.Name, "mountinfo")) {
		fields := strings.Fields(line)
		options[fields[4]] = strings.Split(fields[5], ",")
	}
	for mount, mode := range map[string]string{"/": "ro", "/tmp": "rw", "/etc/kvm-ssh": "ro", "/etc/" + operator: "ro"} {
		if !slices.Contains(options[mount], mode) {
			t.Errorf("%s must be mounted %s, its options are %v", mount, mode, options[mount])
		}
	}
}

// operators gives the processes of the operator's Pods by the Pods' names. The numbers are those of this
// machine, outside of the node.
func (s *story) operators(t *testing.T) map[string]int {
	t.Helper()
	pods := map[string]bool{}
	for _, pod := range s.pods(t.Context()) {
		pods[pod.Name] = true
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, file := range files {
		line, _ := os.ReadFile(file) // a process that ended has nothing to show
		if !strings.HasPrefix(string(line), "/operator\x00") {
			continue
		}
		directory := filepath.Dir(file)
		name, _ := os.ReadFile(filepath.Join(directory, "root", "etc", "hostname"))
		if pod := strings.TrimSpace(string(name)); pods[pod] {
			found[pod], _ = strconv.Atoi(filepath.Base(directory))
		}
	}
	return found
}

// operatorFile reads a file of the operator's process under /proc.
func (s *story) operatorFile(t *testing.T, pod, name string) string {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", s.operators(t)[pod], name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func (s *story) privilegedIsRefused(t *testing.T) {
	t.Helper()
	privileged := true
	err := s.api.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "privileged"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Image: operator, SecurityContext: &corev1.SecurityContext{Privileged: &privileged},
		}}},
	}, client.DryRunAll)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `PodSecurity "restricted`) {
		t.Errorf("the namespace must enforce restricted; a privileged Pod got: %v", err)
	}
}

// manifestsDeleted takes everything away and compares with what was there before.
func manifestsDeleted(t *testing.T, s *story) {
	s.kubectl(t, "delete", "-k", "config/default", "--timeout=120s")
	s.eventually(t, "the cluster holds what it held before", time.Minute, func(context.Context) bool {
		return cmp.Equal(s.objects, s.everything(t))
	})
	t.Logf("%d objects before, %d after", len(s.objects), len(s.everything(t)))
}

// everything lists the objects of every kind, but for what the cluster makes and forgets by itself.
func (s *story) everything(t *testing.T) []string {
	t.Helper()
	kinds := strings.Fields(must(t, "", "bin/k8s/kubectl", "--kubeconfig", s.kubeconfig(), "api-resources", "--verbs=list", "-o", "name"))
	kinds = slices.DeleteFunc(kinds, func(kind string) bool {
		return strings.HasPrefix(kind, "events") || strings.HasPrefix(kind, "leases") || strings.HasPrefix(kind, "componentstatuses")
	})
	out := must(t, "", "bin/k8s/kubectl", "--kubeconfig", s.kubeconfig(), "get", strings.Join(kinds, ","), "-A", "--ignore-not-found",
		"-o", `jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name}{"\n"}{end}`)
	found := strings.Fields(out)
	slices.Sort(found)
	if len(found) < 20 {
		t.Fatalf("a cluster has more than %d objects: %v", len(found), found)
	}
	return found
}
