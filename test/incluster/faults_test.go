//go:build e2e

package incluster

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
)

const (
	victim     = "fault-1"
	victimHost = "kvm2"
)

// leader is the Pod that holds the lease, "" for none that is there.
func (s *story) leader(ctx context.Context) string {
	var lease coordinationv1.Lease
	key := client.ObjectKey{Namespace: namespace, Name: "egress-proxies-operator.egress.hrajfrisbee.cz"}
	if s.api.Get(ctx, key, &lease) != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	for _, pod := range s.pods(ctx) {
		if strings.HasPrefix(*lease.Spec.HolderIdentity, pod.Name+"_") {
			return pod.Name
		}
	}
	return ""
}

func (s *story) scale(t *testing.T, replicas int) {
	t.Helper()
	s.kubectl(t, "scale", "-n", namespace, "deployment/"+operator, "--replicas", map[int]string{1: "1", 2: "2"}[replicas])
	s.eventually(t, "the replicas are ready", time.Minute, func(ctx context.Context) bool {
		return s.ready(ctx) == replicas && len(s.pods(ctx)) == replicas
	})
}

// kill ends the operator's process in a Pod as a crash would.
func (s *story) kill(t *testing.T, pod string) {
	t.Helper()
	process := 0
	// On a starved machine an operator loses its lease, ends, and is started again.
	s.eventually(t, "an operator runs in "+pod, time.Minute, func(context.Context) bool {
		process = s.operators(t)[pod]
		return process != 0
	})
	if err := syscall.Kill(process, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func twoReplicas(t *testing.T, s *story) {
	before := s.leader(t.Context())
	s.scale(t, 2)
	if after := s.leader(t.Context()); after != before || after == "" {
		t.Errorf("a second replica must not take the lease from the first: %q, then %q", before, after)
	}
}

// killedInCreate kills the leader while it transfers an image: the other one finishes the same instance.
func killedInCreate(t *testing.T, s *story) {
	p := &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: victim},
		Spec: v1alpha1.ProxySpec{
			Provider:  entry,
			Placement: v1alpha1.Placement{Zone: zones[1], MachineType: "small", Image: "slow"},
			Auth:      &v1alpha1.ProxyAuth{SecretRef: v1alpha1.SecretReference{Name: sample + "-auth"}},
		},
	}
	pool := func() string { return host(t, victimHost, "ls", "/var/lib/libvirt/images") }
	had := pool()
	if err := s.api.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	s.eventually(t, "the image is on its way", time.Minute, func(context.Context) bool { return pool() != had })
	if files := pool(); strings.Count(files, ".ok") > strings.Count(had, ".ok") || strings.Contains(files, "proxy-") {
		t.Fatalf("the create is past its middle already:\n%s", files)
	}
	before, err := s.proxy(t.Context(), victim)
	if err != nil {
		t.Fatal(err)
	}
	old := s.leader(t.Context())
	// SIGKILL first: a Pod that is deleted, even by force, has a second to give the lease back.
	s.kill(t, old)
	s.kubectl(t, "delete", "pod", "-n", namespace, old, "--grace-period=0", "--force")
	killed := time.Now()
	s.eventually(t, "another replica leads", time.Minute, func(ctx context.Context) bool {
		now := s.leader(ctx)
		return now != "" && now != old
	})
	t.Logf("another replica led %.0f s after the kill", time.Since(killed).Seconds())
	var after *v1alpha1.Proxy
	s.eventually(t, "the VM is made", changeLimit, func(ctx context.Context) bool {
		after, err = s.proxy(ctx, victim)
		return err == nil && meta.IsStatusConditionTrue(after.Status.Conditions, v1alpha1.ConditionProvisioned)
	})
	if before.Status.ProviderID == "" || after.Status.ProviderID != before.Status.ProviderID {
		t.Errorf("the ID must stand before the create and stay: %q, then %q", before.Status.ProviderID, after.Status.ProviderID)
	}
	if domains := strings.Fields(host(t, victimHost, "virsh", "--quiet", "list", "--all", "--name")); len(domains) != 1 {
		t.Errorf("one create makes one domain, whoever finishes it: %v", domains)
	}
}

// killedInDelete kills the operator when the domain is gone and its disk is not yet: an immutable file keeps
// the delete in that place until the kill is done.
func killedInDelete(t *testing.T, s *story) {
	s.scale(t, 1)
	pod := s.pods(t.Context())[0]
	s.eventually(t, "the one replica leads", time.Minute, func(ctx context.Context) bool { return s.leader(ctx) == pod.Name })
	p, err := s.proxy(t.Context(), victim)
	if err != nil {
		t.Fatal(err)
	}
	name := p.Status.ProviderID[strings.LastIndex(p.Status.ProviderID, "/")+1:]
	disks := "/var/lib/libvirt/images/" + name + "*"
	host(t, victimHost, "sh", "-c", "chattr +i "+disks)
	free := func() { host(t, victimHost, "sh", "-c", "chattr -f -i "+disks+" || true") }
	t.Cleanup(free)

	if err := s.api.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	s.eventually(t, "the domain is gone", deleteLimit, func(context.Context) bool {
		return !strings.Contains(host(t, victimHost, "virsh", "--quiet", "list", "--all", "--name"), name)
	})
	if left := ours(t, victimHost); len(left) == 0 {
		t.Fatal("the delete is past its middle already: no volume is left")
	}
	pod = s.pods(t.Context())[0]
	restarts := pod.Status.ContainerStatuses[0].RestartCount
	s.kill(t, pod.Name)
	s.eventually(t, "the container was started again", time.Minute, func(ctx context.Context) bool {
		pods := s.pods(ctx)
		return len(pods) == 1 && len(pods[0].Status.ContainerStatuses) == 1 && pods[0].Status.ContainerStatuses[0].RestartCount > restarts
	})
	if _, err := s.proxy(t.Context(), victim); err != nil {
		t.Errorf("the Proxy must stay until its VM is proved gone: %v", err)
	}
	free()
	s.eventually(t, victim+" is gone", deleteLimit, func(ctx context.Context) bool {
		_, err := s.proxy(ctx, victim)
		return apierrors.IsNotFound(err)
	})
	if left := ours(t, victimHost); len(left) > 0 {
		t.Errorf("%s still has %v", victimHost, left)
	}
	var events corev1.EventList
	if err := s.api.List(t.Context(), &events, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		if e.InvolvedObject.Name == victim {
			t.Logf("event: %s %s: %s", e.Type, e.Reason, e.Message)
		}
	}
}
