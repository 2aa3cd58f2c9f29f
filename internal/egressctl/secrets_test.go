package egressctl_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/fake"
)

// secrets of a record.
func (d *desk) secrets(name string) map[string]string {
	d.t.Helper()
	var r struct {
		PasswordHash, Password, ProbePassword string
		UserData                              []byte
	}
	if err := json.Unmarshal([]byte(d.read("state/instances/kvm2-home_"+name+".json")), &r); err != nil {
		d.t.Fatal(err)
	}
	return map[string]string{
		"the password's hash": r.PasswordHash, "the password": r.Password,
		"the probe's password": r.ProbePassword, "the user-data": string(r.UserData),
	}
}

func TestSecrets_neverShownAtAnyVerbosity(t *testing.T) {
	for _, verbosity := range []string{"-q", "-v", "-vv", "-vvvv"} {
		t.Run(verbosity, func(t *testing.T) {
			d := rendersDesk(t).checked()
			create := []string{"create", "berlin-1", "--auth-user", "alice", "--generate-password", verbosity}
			d.backend.Fail(fake.Create, 1, errors.New("killed here"))
			var all strings.Builder
			for _, args := range [][]string{
				create, create, append(create, "-o", "json"), {"create", "berlin-1", "--port", "1", verbosity},
				{"get", "berlin-1", verbosity}, {"get", "berlin-1", "-o", "yaml", verbosity}, {"list", "-o", "wide", verbosity},
				{"list", "-o", "json", verbosity}, {"check", "-o", "wide", verbosity}, {"render", "berlin-1", verbosity},
				{"delete", "berlin-1", "--timeout", "1ns", verbosity},
			} {
				e := d.run(args...)
				all.WriteString(e.out + e.err)
			}
			secrets := d.secrets("berlin-1")
			e := d.run("delete", "berlin-1", verbosity)
			all.WriteString(e.out + e.err)
			for what, secret := range secrets {
				if secret == "" {
					t.Errorf("%s is not recorded", what)
				} else if strings.Contains(all.String(), secret) {
					t.Errorf("%s was shown", what)
				}
			}
		})
	}
}

func TestSecrets_generatedPasswordIsShownWhereItIsAskedFor(t *testing.T) {
	d := newDesk(t, "beelink")
	e := d.must("create", "berlin-1", "--auth-user", "al@ice", "--generate-password")
	if !strings.Contains(e.err, "egressctl get berlin-1 --entry kvm2-home --show-password") {
		t.Errorf("no hint where the password is: %q", e.err)
	}
	password := d.secrets("berlin-1")["the password"]
	want := "http://al%40ice:" + password + "@198.18.0.2:3128"
	if got := d.must("get", "berlin-1", "--show-password").out; !strings.Contains(got, want) {
		t.Errorf("the proxy URL is not %s:\n%s", want, got)
	}
	d.must(open("berlin-2")...)
	wantFailure(t, d.run("get", "berlin-2", "--show-password"), egressctl.CodeUsage, "--generate-password")
}

func TestSecrets_aChosenPasswordIsNotKept(t *testing.T) {
	d := newDesk(t, "beelink")
	d.stdin = "open sesame\r\nand no more\n"
	d.must("create", "berlin-1", "--auth-user", "alice", "--password-file", "-", "-q")
	err := filepath.WalkDir(filepath.Join(d.dir, "state"), func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), "sesame") {
			t.Errorf("the password is in %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(d.backend.Instances()[0].CloudInit), "sesame") {
		t.Error("the password itself is in the user-data")
	}
	// The same one again, from another place and without the line's end, is the same.
	d.env["EGRESSCTL_PASSWORD"] = "open sesame"
	d.must("create", "berlin-1", "-q")
}

func TestSecrets_hostileHostCannotWriteToTheTerminal(t *testing.T) {
	d := newDesk(t, "beelink")
	d.backend.FailHost("beelink", provider.Errorf(provider.ErrTransient, provider.ReasonBackendError, "a\x1b[2J\nforged: line"))
	for _, args := range [][]string{open("berlin-1"), {"list", "-vv"}, {"check"}, {"delete", "berlin-1"}, {"get", "berlin-1"}} {
		e := d.run(args...)
		if all := e.out + e.err; strings.Contains(all, "\x1b") || strings.Contains(all, "\nforged") {
			t.Errorf("%v lets a host write to the terminal: %q", args, all)
		}
	}
}
