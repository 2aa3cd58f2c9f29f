package provider_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

const (
	testOwner = "owner-1"
	testUID   = "6f1c6d3e-52a6-4a39-8a53-6f8a1d0c8a11"
)

var instanceName = regexp.MustCompile(`^proxy-[0-9a-f]{6}-[a-z0-9]+(-[a-z0-9]+)*-[0-9a-f]{8}$`)

func TestInstanceName_isASafeLabelThatShowsTheName(t *testing.T) {
	long := strings.Repeat("a", 253)
	cases := map[string]struct {
		reason string
		ref    string
		short  string
	}{
		"plain":                     {"a name is kept", "default/berlin-1", "berlin-1"},
		"dots":                      {"dots of a Kubernetes name become hyphens", "default/a.b.c", "a-b-c"},
		"one letter":                {"short names need no filling", "default/a", "a"},
		"digits":                    {"digits alone are fine behind the prefix", "default/123", "123"},
		"253 characters":            {"what does not fit is cut", "default/" + long, long[:41]},
		"hyphen at the cut":         {"no hyphen stands before the hash's own", "default/" + long[:40] + "-tail", long[:40]},
		"dots and hyphens together": {"double hyphens would look like punycode", "default/a.-.b--c", "a-b-c"},
		"upper case":                {"names are lower case", "default/Berlin_1", "berlin-1"},
		"nothing usable":            {"a name without a letter still gives a label", "default/...", "instance"},
		"not ASCII":                 {"only ASCII letters and digits stay", "default/bär", "b-r"},
		"no namespace":              {"a bare name is taken as it is", "berlin-1", "berlin-1"},
		"empty":                     {"an empty ref gives a label all the same", "", "instance"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := provider.InstanceName(testOwner, tc.ref, testUID)
			if len(got) > 63 || !instanceName.MatchString(got) {
				t.Errorf("%s: must be a DNS label of the documented form, is %q (%d bytes)", tc.reason, got, len(got))
			}
			short := strings.TrimPrefix(got, "proxy-"+provider.OwnerDigits(testOwner)+"-")
			if diff := cmp.Diff(tc.short, short[:len(short)-len("-12345678")]); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestInstanceName_differsWhereAnyInputDiffers(t *testing.T) {
	long := strings.Repeat("a", 252)
	inputs := [][3]string{
		{testOwner, "a-b/c", testUID},
		{testOwner, "a/b-c", testUID},
		{testOwner, "default/" + long + "x", testUID},
		{testOwner, "default/" + long + "y", testUID},
		{testOwner, "default/a.b", testUID},
		{testOwner, "default/a-b", testUID},
		{testOwner, "default/a-b", "6f1c6d3e-52a6-4a39-8a53-6f8a1d0c8a12"},
		{"owner-2", "default/a-b", testUID},
		{"owner", "-1default/a-b", testUID},
	}
	seen := map[string][3]string{}
	for _, in := range inputs {
		name := provider.InstanceName(in[0], in[1], in[2])
		if other, taken := seen[name]; taken {
			t.Errorf("names must differ: %v and %v both give %s", in, other, name)
		}
		seen[name] = in
	}
}

func TestInstanceName_neverChanges(t *testing.T) {
	// The value that the first release gave: after an operator's update it must still find its instances.
	want := "proxy-391887-berlin-1-7c823366"
	if got := provider.InstanceName(testOwner, "default/berlin-1", testUID); got != want {
		t.Errorf("a name must be the same in every version: want %s, got %s", want, got)
	}
}

func TestUIDFor_isAStableVersion5UUID(t *testing.T) {
	want := "78ba5d21-f18c-5a2d-9441-1a239edc9afc"
	got := provider.UIDFor("egressctl-1", "kvm2-home", "berlin-1")
	if got != want {
		t.Errorf("a UID must be the same in every version: want %s, got %s", want, got)
	}
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(got) {
		t.Errorf("must be a version 5 UUID of the RFC's variant, is %s", got)
	}
}

func TestUIDFor_differsWhereAnyInputDiffers(t *testing.T) {
	seen := map[string]string{}
	for _, in := range [][3]string{{"o", "e", "n"}, {"o2", "e", "n"}, {"o", "e2", "n"}, {"o", "e", "n2"}, {"oe", "", "n"}, {"", "oe", "n"}} {
		uid := provider.UIDFor(in[0], in[1], in[2])
		if other, taken := seen[uid]; taken {
			t.Errorf("UIDs must differ: %v and %s both give %s", in, other, uid)
		}
		seen[uid] = fmt.Sprint(in)
	}
}
