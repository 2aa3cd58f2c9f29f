//go:build e2e

// Package e2e takes a Proxy from apply to a request through it and back to nothing, on the lab: the
// operator's binary, as its own ServiceAccount, on a real API server, with real KVM hosts.
package e2e

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
)

const (
	entry        = "kvm2-home"
	readyLimit   = 10 * time.Minute // a guest that is emulated on a busy machine boots in one or two
	deleteLimit  = 2 * time.Minute
	requestLimit = 30 * time.Second
)

// TestProxy is one story; its steps build on each other.
func TestProxy(t *testing.T) {
	s := start(t)
	steps := []struct {
		name string
		run  func(*testing.T, *story)
	}{
		{"ProviderHealthIsReady", providerHealth},
		{"AppliedUntilReady", appliedUntilReady},
		{"RequestPassesAsTheVM", requestPasses},
		{"RequestWithoutTheCredentialIsRefused", requestRefused},
		{"DeletedLeavesNothing", deletedLeavesNothing},
		{"DeletedOneSecondAfterApplyLeavesNothing", deletedAtOnce},
	}
	for _, step := range steps {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, s) }) {
			t.Fatalf("%s failed: what follows builds on it. The operator's log:\n%s", step.name, s.operatorLog())
		}
	}
}

func providerHealth(t *testing.T, s *story) {
	var health v1alpha1.ProviderHealth
	s.eventually(t, "ProviderHealth "+entry+" is Ready", time.Minute, func(ctx context.Context) bool {
		err := s.api.Get(ctx, client.ObjectKey{Name: entry}, &health)
		return err == nil && meta.IsStatusConditionTrue(health.Status.Conditions, v1alpha1.ConditionProviderReady)
	})
	facts := map[string]string{}
	for _, d := range health.Status.Hosts[0].Details {
		facts[d.Key] = d.Value
	}
	for _, key := range []string{"user", "hostname", "libvirtVersion", "pool", "poolState", "poolCapacityGiB", "poolAvailableGiB"} {
		if facts[key] == "" {
			t.Errorf("the health of a host tells its %s: %v", key, facts)
		}
	}
}

func appliedUntilReady(t *testing.T, s *story) {
	s.create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "berlin-1-auth"},
		StringData: map[string]string{"username": "alice", "password": "s3cret:/@"},
	})
	applied := time.Now()
	s.create(t, s.proxy("berlin-1"))
	var p v1alpha1.Proxy
	addressed := time.Duration(0)
	s.eventually(t, "berlin-1 is Ready", readyLimit, func(ctx context.Context) bool {
		if err := s.api.Get(ctx, client.ObjectKey{Namespace: "default", Name: "berlin-1"}, &p); err != nil {
			return false
		}
		if addressed == 0 && p.Status.Address != "" {
			addressed = time.Since(applied)
		}
		return meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady)
	})
	t.Logf("apply to address %.0f s, to Ready %.0f s", addressed.Seconds(), time.Since(applied).Seconds())
	if p.Status.EgressIP != p.Status.Address || p.Status.MACAddress == "" {
		t.Errorf("the origin saw %s, the VM has %s (MAC %s)", p.Status.EgressIP, p.Status.Address, p.Status.MACAddress)
	}
}

// origin asks the lab's origin through a proxy and gives status and body.
func origin(t *testing.T, proxy *url.URL) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), requestLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, os.Getenv("LAB_ORIGIN_URL"), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy), DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatalf("a request through %s: %v", proxy.Redacted(), err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(body))
}

func proxyURL(t *testing.T, s *story) *url.URL {
	t.Helper()
	var secret corev1.Secret
	if err := s.api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "berlin-1-proxy"}, &secret); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(string(secret.Data["http_proxy"]))
	if err != nil {
		t.Fatal("the connection Secret holds no URL")
	}
	return u
}

func requestPasses(t *testing.T, s *story) {
	u := proxyURL(t, s)
	if status, saw := origin(t, u); status != http.StatusOK || saw != u.Hostname() {
		t.Errorf("the origin must see the VM's own address %s: status %d, saw %q", u.Hostname(), status, saw)
	}
}

func requestRefused(t *testing.T, s *story) {
	u := *proxyURL(t, s)
	u.User = nil
	if status, _ := origin(t, &u); status != http.StatusProxyAuthRequired {
		t.Errorf("without the credential: status %d, want 407", status)
	}
}

func deletedLeavesNothing(t *testing.T, s *story) {
	s.delete(t, "berlin-1")
	s.untilGone(t, "berlin-1")
	s.nothingLeft(t)
}

func deletedAtOnce(t *testing.T, s *story) {
	s.create(t, s.proxy("berlin-2"))
	timer := time.NewTimer(time.Second)
	<-timer.C
	s.delete(t, "berlin-2")
	s.untilGone(t, "berlin-2")
	s.nothingLeft(t)
	s.eventually(t, "the Secrets of berlin-2 are collected", time.Minute, func(ctx context.Context) bool {
		for _, name := range []string{"berlin-2-proxy", "berlin-2-proxy-keys"} {
			err := s.api.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, &corev1.Secret{})
			if !apierrors.IsNotFound(err) {
				return false
			}
		}
		return true
	})
}
