package egressctl_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl"
)

func TestUsage_wrongOnesAreOneSentence(t *testing.T) {
	d := newDesk(t, "beelink", "cedar")
	empty := d.write("empty", "")
	cases := map[string]struct {
		reason string
		args   []string
		says   string
	}{
		"Command":     {"an unknown command is named", []string{"frobnicate"}, "frobnicate"},
		"Flag":        {"an unknown flag is named", []string{"list", "--colour"}, "--colour"},
		"Format":      {"an unknown format is named with the right ones", []string{"list", "-o", "xml"}, "table, wide, json or yaml"},
		"NoName":      {"create needs a name", []string{"create"}, "egressctl create berlin-1"},
		"TwoNames":    {"one at a time", []string{"delete", "a", "b"}, "name of one instance"},
		"BadName":     {"a name is a DNS label", []string{"get", "Berlin_1"}, "Berlin_1"},
		"LongName":    {"a name has at most 63 characters", []string{"get", strings.Repeat("a", 64)}, "63"},
		"Zone":        {"an unknown zone is named with the right ones", open("b", "--zone", "nowhere"), `kvm2-home: there is no zone "nowhere", the entry has beelink and cedar`},
		"NoZone":      {"a zone is needed where there are two", open("b"), "--zone is needed, the entry has beelink and cedar"},
		"MachineType": {"an unknown machine type is named with the right ones", open("b", "--zone", "cedar", "--machine-type", "huge"), `no machine type "huge", the entry has small`},
		"Image":       {"an unknown image is named with the right ones", open("b", "--zone", "cedar", "--image", "woody"), `no image "woody", the entry has trixie`},
		"Entry":       {"an unknown entry is named with the right ones", []string{"get", "b", "--entry", "kvm2-lab"}, "kvm2-home"},
		"Relay":       {"nobody gets an open relay by accident", []string{"create", "b", "--zone", "cedar"}, "--auth-user, --allow-source or both"},
		"OpenToAll":   {"every address is nobody in particular", []string{"create", "b", "--zone", "cedar", "--allow-source", "0.0.0.0/0"}, "open relay"},
		"NoPassword":  {"a user needs a password", []string{"create", "b", "--zone", "cedar", "--auth-user", "alice"}, "--password-file, EGRESSCTL_PASSWORD or --generate-password"},
		"NoUser":      {"a password needs a user", open("b", "--zone", "cedar", "--generate-password"), "--auth-user"},
		"TwoSources":  {"one password", open("b", "--password-file", empty, "--generate-password"), "password-file"},
		"EmptyFile":   {"an empty password is none", open("b", "--zone", "cedar", "--auth-user", "alice", "--password-file", empty), "empty"},
		"NoFile":      {"a file that is not there is named", open("b", "--zone", "cedar", "--auth-user", "alice", "--password-file", "/nowhere"), "/nowhere"},
		"OddFile":     {"whatever a name has in it, the sentence is one line", open("b", "--zone", "cedar", "--auth-user", "alice", "--password-file", "/nowhere\n\x1b[2Jx"), "/nowhere; \uFFFD[2Jx"},
		"Source":      {"a source is a CIDR", []string{"create", "b", "--zone", "cedar", "--allow-source", "10.0.0.0/33"}, `--allow-source "10.0.0.0/33"`},
		"Destination": {"a destination is a domain", open("b", "--zone", "cedar", "--allow-destination", "https://example.org"), "--allow-destination"},
		"Loopback":    {"loopback is never opened", open("b", "--zone", "cedar", "--allow-private-destination", "127.0.0.0/8"), "never opened"},
		"Port":        {"a port is a number up to 65535", open("b", "--zone", "cedar", "--port", "65536"), "--port 65536"},
		"Keys":        {"a key file has public keys", open("b", "--zone", "cedar", "--ssh-key-file", d.write("keys", "no key\n")), "--ssh-key-file"},
		"OwnAndOurs":  {"own user-data leaves nothing for our flags to do", []string{"create", "b", "--user-data-file", "x", "--auth-user", "alice"}, "user-data-file"},
		"NoConfig":    {"a providers file that is not there is named", []string{"list", "--config", "/nowhere/p.yaml"}, "/nowhere/p.yaml"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			wantFailure(t, d.run(tc.args...), egressctl.CodeUsage, tc.says)
		})
	}
	if left := d.backend.Instances(); len(left) != 0 {
		t.Errorf("wrong usage made %v", left)
	}
	if left, err := os.ReadDir(filepath.Join(d.dir, "state", "instances")); err != nil || len(left) != 0 {
		t.Errorf("wrong usage left records: %v (%v)", left, err)
	}
}

func TestUsage_helpTeaches(t *testing.T) {
	d := newDesk(t, "beelink")
	for command, parts := range map[string][]string{
		"":       {"egressctl create berlin-1", "Exit codes:", "130", "EGRESSCTL_CONFIG", "--state-dir"},
		"create": {"Examples:", "--password-file", "EGRESSCTL_PASSWORD", "--no-wait", "Run it again"},
		"delete": {"Examples:", "--forget"},
		"get":    {"Examples:", "--show-password"},
		"list":   {"Examples:", "Recorded"},
		"check":  {"Examples:", "8 when a host is not ready"},
		"render": {"Examples:", "--show-secrets"},
	} {
		e := d.must(append(strings.Fields(command), "--help")...)
		for _, part := range parts {
			if !strings.Contains(e.out, part) {
				t.Errorf("the help of %q does not say %q", command, part)
			}
		}
		for line := range strings.Lines(e.out) {
			if strings.Contains(line, "—") {
				t.Errorf("the help of %q has an em-dash: %s", command, line)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	d := newDesk(t, "beelink")
	if diff := cmp.Diff("v1.2.3\n", d.must("version").out); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestCompletion_offersWhatThereIs(t *testing.T) {
	d := newDesk(t, "beelink", "cedar")
	d.must(open("berlin-1", "--zone", "cedar")...)
	for typed, want := range map[string]string{
		"get ":                       "berlin-1",
		"delete --entry kvm2-home ":  "berlin-1",
		"get --entry ":               "kvm2-home",
		"create x --zone ":           "cedar",
		"create x --image ":          "trixie",
		"create x --machine-type ":   "small",
		"list -o ":                   "wide",
		"create x --entry no --zone": "",
	} {
		e := d.must(append([]string{"__complete"}, strings.Split(typed, " ")...)...)
		if !strings.Contains(e.out, want) {
			t.Errorf("after %q the shell is offered %q, want %q among it", typed, e.out, want)
		}
	}
}
