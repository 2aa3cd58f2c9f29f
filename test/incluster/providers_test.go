//go:build e2e

package incluster

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// The lab's hosts under the names that the samples use.
var zones = []string{"beelink", "attic"}

// secretAndProviders gives the running Pod its key and its hosts: it started with the shipped example.
func secretAndProviders(t *testing.T, s *story) {
	s.writeSecret(t, s.lab["KVM2_TEST_SSH_KEY"])
	s.writeProviders(t)
	s.untilHealth(t, func(h *v1alpha1.ProviderHealth) bool {
		return meta.IsStatusConditionTrue(h.Status.Conditions, v1alpha1.ConditionProviderReady) && len(h.Status.Hosts) == len(zones)
	})
	s.kubectl(t, "get", "ph", entry, "-o", "yaml")
}

// writeSecret makes kvm-ssh of a key and the lab's known_hosts, or replaces it.
func (s *story) writeSecret(t *testing.T, keyFile string) {
	t.Helper()
	key, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	hosts, err := os.ReadFile(s.lab["KVM2_TEST_KNOWN_HOSTS"])
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kvm-ssh"},
		Data:       map[string][]byte{"id_ed25519": key, "known_hosts": hosts},
	}
	err = s.api.Create(t.Context(), secret)
	if apierrors.IsAlreadyExists(err) {
		err = s.api.Update(t.Context(), secret)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// image is a key of the entry's images.
type image struct{ name, url, sha256 string }

// writeProviders writes the providers file into its ConfigMap: the lab's hosts, the lab's image as the
// sample's, other images that no machine boots from, and entries beside it that have the same hosts.
func (s *story) writeProviders(t *testing.T, more ...string) {
	t.Helper()
	data, err := os.ReadFile(s.lab["LAB_PROVIDERS"])
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		CheckURL  string `json:"checkURL"`
		Providers []struct {
			Name string             `json:"name"`
			Type string             `json:"type"`
			KVM2 provider.KVMConfig `json:"kvm2"`
		} `json:"providers"`
	}
	if err := yaml.UnmarshalStrict(data, &config); err != nil {
		t.Fatal(err)
	}
	e := config.Providers[0]
	if len(e.KVM2.Hosts) < len(zones) {
		t.Fatalf("the lab has %d hosts, the test needs %d: LAB_HOSTS=2 make lab-up", len(e.KVM2.Hosts), len(zones))
	}
	e.Name = entry
	e.KVM2.SSHKeyFile, e.KVM2.KnownHostsFile = "/etc/kvm-ssh/id_ed25519", "/etc/kvm-ssh/known_hosts"
	e.KVM2.Hosts = e.KVM2.Hosts[:len(zones)]
	for i, zone := range zones {
		e.KVM2.Hosts[i].Name = zone
	}
	e.KVM2.Images["debian-13"] = e.KVM2.Images["egress"]
	delete(e.KVM2.Images, "egress")
	blank := s.blank(t)
	for _, img := range []image{
		{"blank", s.lab["LAB_IMAGE_BASE"] + "/files/" + blank.name, blank.sha256},
		// About 8 seconds.
		{"slow", s.lab["LAB_IMAGE_BASE"] + "/fault/slow/262144/files/" + blank.name, blank.sha256},
	} {
		e.KVM2.Images[img.name] = provider.KVMImage{URL: img.url, SHA256: img.sha256, Format: provider.FormatRaw}
	}
	config.Providers = config.Providers[:0]
	config.Providers = append(config.Providers, e)
	for _, name := range more {
		e.Name = name
		config.Providers = append(config.Providers, e)
	}
	file, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	patch := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"providers.yaml": string(file)}}}
	merge, err := patch.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	target := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "egress-proxies-providers"}}
	if err := s.api.Patch(t.Context(), target, client.RawPatch("application/merge-patch+json", merge)); err != nil {
		t.Fatal(err)
	}
}

// blank is a raw image of 2 MiB that no machine boots from, made for this run; the lab serves it.
func (s *story) blank(t *testing.T) image {
	t.Helper()
	if s.blankImage.name != "" {
		return s.blankImage
	}
	data := make([]byte, 2<<20)
	_, _ = rand.Read(data)            // never fails
	data[510], data[511] = 0x55, 0xaa // what a disk with a partition table has there
	sum := sha256.Sum256(data)
	s.blankImage = image{name: "incluster.img", sha256: hex.EncodeToString(sum[:])}
	if err := os.WriteFile(filepath.Join(s.lab["LAB_WWW"], s.blankImage.name), data, 0o644); err != nil {
		t.Fatal(err)
	}
	return s.blankImage
}

// untilHealth waits until the entry's ProviderHealth is as it should.
func (s *story) untilHealth(t *testing.T, ok func(*v1alpha1.ProviderHealth) bool) *v1alpha1.ProviderHealth {
	t.Helper()
	var health v1alpha1.ProviderHealth
	s.eventually(t, "ProviderHealth "+entry+" is as it should be", changeLimit, func(ctx context.Context) bool {
		return s.api.Get(ctx, client.ObjectKey{Name: entry}, &health) == nil && ok(&health)
	})
	return &health
}

// keyRotated takes the old key from one host, sees that it is missed, and gives the Pod the new one. An entry
// comes and goes with the ConfigMap at the same time: a changed file is followed by a check of every host.
func keyRotated(t *testing.T, s *story) {
	before := s.pods(t.Context())[0]
	key := filepath.Join(t.TempDir(), "id_ed25519")
	must(t, "", "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "rotated", "-f", key)
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	// The first host takes both keys, so that what goes on there is not disturbed; the second only the new.
	authorize := func(name, redirect string) {
		must(t, string(public), "./test/lab/lab", "shell", name, "--", "sh", "-c", "cat "+redirect+" /run/home/egress/.ssh/authorized_keys")
	}
	authorize("kvm1", ">>")
	authorize("kvm2", ">")
	s.writeProviders(t, "kvm2-second")
	s.eventually(t, "the new entry has a ProviderHealth", changeLimit, s.hasSecond)
	s.untilHealth(t, func(h *v1alpha1.ProviderHealth) bool { return attic(h).Reason == provider.ReasonAuthFailed })
	s.kubectl(t, "get", "ph")

	rotated := time.Now()
	s.writeSecret(t, key)
	s.writeProviders(t)
	s.untilHealth(t, func(h *v1alpha1.ProviderHealth) bool { return attic(h).Ready })
	t.Logf("the new key was in use %.0f s after the Secret", time.Since(rotated).Seconds())
	s.eventually(t, "the ProviderHealth went with its entry", changeLimit, func(ctx context.Context) bool { return !s.hasSecond(ctx) })
	s.kubectl(t, "get", "ph")

	after := s.pods(t.Context())[0]
	if after.UID != before.UID || after.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the Pod must not restart for a new key or file: %s with %d restarts", after.Name, after.Status.ContainerStatuses[0].RestartCount)
	}
}

// attic is the second host's part of an entry's health.
func attic(h *v1alpha1.ProviderHealth) v1alpha1.HostHealth {
	for _, host := range h.Status.Hosts {
		if host.Name == zones[1] {
			return host
		}
	}
	return v1alpha1.HostHealth{}
}

func (s *story) hasSecond(ctx context.Context) bool {
	return s.api.Get(ctx, client.ObjectKey{Name: "kvm2-second"}, &v1alpha1.ProviderHealth{}) == nil
}
