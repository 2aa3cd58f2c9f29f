//go:build e2e

package incluster

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
)

// sampleApplied applies the shipped sample with one line more: the lab's origin has an address of a range
// that is closed by default.
func sampleApplied(t *testing.T, s *story) {
	file := filepath.Join("config", "samples", "proxy_kvm2.yaml")
	data, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	s.applied = time.Now()
	s.apply(t, string(data)+"  allowedPrivateDestinations: ["+s.lab["LAB_ORIGIN_CIDR"]+"]\n")
	s.eventually(t, "the ID is written down", time.Minute, func(ctx context.Context) bool {
		p, err := s.proxy(ctx, sample)
		return err == nil && p.Status.ProviderID != ""
	})
}

func sampleReady(t *testing.T, s *story) {
	var p *v1alpha1.Proxy
	s.eventually(t, sample+" is Ready", readyLimit, func(ctx context.Context) bool {
		var err error
		p, err = s.proxy(ctx, sample)
		return err == nil && meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady)
	})
	since := func(condition string) float64 {
		return meta.FindStatusCondition(p.Status.Conditions, condition).LastTransitionTime.Sub(s.applied).Seconds()
	}
	t.Logf("after apply: VM made %.0f s, address %.0f s, Ready %.0f s", since(v1alpha1.ConditionProvisioned),
		since(v1alpha1.ConditionAddressAssigned), since(v1alpha1.ConditionReady))
	t.Logf("image from its server into the pool of kvm1, cold: %s", s.transfer(t))
	u := s.usage(t, s.pods(t.Context())[0].Name)
	t.Logf("the Pod: %.0f MiB working set, %.1f s of CPU since its start", u.memoryMiB, u.cpu.Seconds())
	s.kubectl(t, "get", "eproxy", sample, "-o", "wide")
}

// transfer is the time between the first byte of the base image in the pool and its marker.
func (s *story) transfer(t *testing.T) time.Duration {
	t.Helper()
	times := strings.Fields(host(t, "kvm1", "sh", "-c",
		`cd /var/lib/libvirt/images && stat -c %.W $(ls kvm2-base-*.qcow2 | head -1) && stat -c %.W $(ls kvm2-base-*.ok | head -1)`))
	if len(times) != 2 {
		t.Fatalf("the pool must hold a base and its marker: %v", times)
	}
	var moments [2]time.Duration
	for i, text := range times {
		moment, err := time.ParseDuration(text + "s")
		if err != nil {
			t.Fatal(err)
		}
		moments[i] = moment
	}
	return (moments[1] - moments[0]).Round(100 * time.Millisecond)
}

// requestPasses asks with curl and the URL of the Proxy's Secret, as the sample's reader would.
func requestPasses(t *testing.T, s *story) {
	var secret corev1.Secret
	if err := s.api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: sample + "-proxy"}, &secret); err != nil {
		t.Fatal(err)
	}
	p, err := s.proxy(t.Context(), sample)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(proxy string) (string, error) {
		return run(t, "", "curl", "--silent", "--show-error", "--fail", "--max-time", "30", "-x", proxy, s.lab["LAB_ORIGIN_URL"])
	}
	saw, err := ask(string(secret.Data["http_proxy"]))
	if err != nil || strings.TrimSpace(saw) != p.Status.Address {
		t.Errorf("the origin must see the VM's address %s: %v, it saw %s", p.Status.Address, err, saw)
	}
	t.Logf("$ curl -x \"$(kubectl get secret %s-proxy -o jsonpath='{.data.http_proxy}' | base64 -d)\" %s\n%s", sample, s.lab["LAB_ORIGIN_URL"], saw)
	if out, err := ask("http://" + p.Status.Endpoint); err == nil || !strings.Contains(out, "407") {
		t.Errorf("without the credential the proxy must refuse with 407: %v, %s", err, out)
	}
	if log := s.operatorLog(); strings.Contains(log, "change-me") || strings.Contains(log, base64.StdEncoding.EncodeToString([]byte("change-me"))) {
		t.Error("the password is in the operator's log")
	}
}

func deletedLeavesNothing(t *testing.T, s *story) {
	s.kubectl(t, "delete", "eproxy", "--all", "-A", "--timeout=120s")
	for _, name := range []string{"kvm1", "kvm2"} {
		if left := ours(t, name); len(left) > 0 {
			t.Errorf("%s still has %v", name, left)
		}
	}
	s.eventually(t, "the Proxy's Secrets are collected", time.Minute, func(ctx context.Context) bool {
		for _, name := range []string{sample + "-proxy", sample + "-proxy-keys"} {
			if err := s.api.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, &corev1.Secret{}); !apierrors.IsNotFound(err) {
				return false
			}
		}
		return true
	})
	// The user's own Secret is the user's to delete.
	s.kubectl(t, "delete", "secret", sample+"-auth")
}
