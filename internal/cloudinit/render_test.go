package cloudinit_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/cloudinit"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Hashes of "password" and of "probe", and a key that opens nothing.
const (
	hashA  = "$2a$10$SOMEsaltSOMEsaltSOMEsuNoBodyHasThisPasswordItIsNotOne"
	hashB  = "$2a$10$OTHERsaltOTHERsaltOTHuNoBodyHasThisPasswordItIsNotOne"
	sshKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILoweWJVqRud3cfn0tfMMj0knAda7yGmSjyxCisY3Fnm admin@example.net"
)

// whole is a Spec that uses every field.
func whole() cloudinit.Spec {
	return cloudinit.Spec{
		Hostname:                   "proxy-1a2b3c-berlin-1-0011aabb",
		Port:                       3129,
		AllowedSources:             cidrs("192.0.2.0/24", "2001:db8:1::/48", "192.0.2.128/25"),
		User:                       "alice",
		PasswordHash:               hashA,
		AllowedDestinations:        []string{"www.Example.com", "example.com", "example.org"},
		AllowedPrivateDestinations: cidrs("10.1.0.0/16", "fd00:1::/32"),
		GuardedDestinations:        []string{"beelink.example.net", "10.1.0.1", "10.1.9.0/24"},
		Probe:                      &cloudinit.Probe{User: "probe-abcdefgh", PasswordHash: hashB, CheckURL: "http://check.example.net:8081/ip?format=text"},
		SSHAuthorizedKeys:          []string{sshKey},
	}
}

func TestRender_golden(t *testing.T) {
	for name, spec := range map[string]cloudinit.Spec{
		"sources": {Hostname: "proxy-1", AllowedSources: cidrs("192.0.2.0/24")},
		"auth": {
			Hostname: "proxy-1", User: "alice", PasswordHash: hashA,
			Probe: &cloudinit.Probe{User: "probe-abcdefgh", PasswordHash: hashB, CheckURL: "https://check.example.net/ip"},
		},
		"whole": whole(),
	} {
		t.Run(name, func(t *testing.T) {
			got := render(t, spec)
			golden := filepath.Join("testdata", name+".golden.yaml")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("user-data -want, +got (go test ./internal/cloudinit -update writes it anew):\n%s", diff)
			}
		})
	}
}

func TestRender_sameSpecSameBytes(t *testing.T) {
	first := render(t, whole())
	for range 20 {
		if !bytes.Equal(first, render(t, whole())) {
			t.Fatal("two renderings of one Spec differ")
		}
	}
}

func TestRender_orderOfListsDoesNotMatter(t *testing.T) {
	turned := whole()
	turned.AllowedSources = cidrs("2001:db8:1::/48", "192.0.2.128/25", "192.0.2.77/24")
	turned.AllowedDestinations = []string{"example.org", "EXAMPLE.com"}
	turned.AllowedPrivateDestinations = cidrs("fd00:1::/32", "10.1.0.0/16")
	turned.GuardedDestinations = []string{"10.1.9.0/24", "10.1.0.1/32", "Beelink.example.net."}
	if diff := cmp.Diff(string(render(t, whole())), string(render(t, turned))); diff != "" {
		t.Errorf("the same rules in another order and spelling: -want, +got:\n%s", diff)
	}
}

// TestRender_isCloudConfig reads the user-data as cloud-init does.
func TestRender_isCloudConfig(t *testing.T) {
	got := render(t, whole())
	if !bytes.HasPrefix(got, []byte("#cloud-config\n")) {
		t.Errorf("starts with %.30q, want #cloud-config on a line of its own", got)
	}
	var data map[string]any
	if err := yaml.UnmarshalStrict(got, &data); err != nil {
		t.Fatalf("not YAML: %v", err)
	}
	for _, key := range []string{"package_update", "package_upgrade", "packages"} {
		if _, ok := data[key]; ok {
			t.Errorf("has %s, want none: it would run apt on images that need nothing", key)
		}
	}
	if bytes.Contains(got, []byte("#include")) || bytes.Contains(got, []byte("## template")) {
		t.Error("cloud-init would read the user-data as another kind")
	}
}

func TestRender_isSecret(t *testing.T) {
	got, err := cloudinit.Render(whole())
	if err != nil {
		t.Fatal(err)
	}
	if text := got.String(); strings.Contains(text, hashA) {
		t.Errorf("printed as %q, want no content", text)
	}
}

func TestRender_nothingButAccessIsRequired(t *testing.T) {
	got := string(render(t, cloudinit.Spec{Hostname: "p", AllowedSources: cidrs("192.0.2.1/32")}))
	for _, absent := range []string{"auth_param", "proxy_auth", "allowed_name", "guarded_name", "acl check"} {
		if strings.Contains(got, absent) {
			t.Errorf("has %q, want only what the Spec asks for", absent)
		}
	}
	if !strings.Contains(got, "http_port 3128 ") {
		t.Error("want squid's own port where none is given")
	}
}

func TestRender_errorIsTyped(t *testing.T) {
	_, err := cloudinit.Render(cloudinit.Spec{})
	if !errors.Is(err, provider.ErrPermanent) || provider.ReasonOf(err) != provider.ReasonInvalidRequest {
		t.Errorf("got %v, want a permanent error with reason %s", err, provider.ReasonInvalidRequest)
	}
}

func render(t *testing.T, spec cloudinit.Spec) []byte {
	t.Helper()
	got, err := cloudinit.Render(spec)
	if err != nil {
		t.Fatalf("Render: %v", err)
	}
	return got
}
