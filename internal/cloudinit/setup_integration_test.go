//go:build integration

package cloudinit_test

import (
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// setup runs egress-setup with the given commands in place of the system's, each a shell script. They
// append to the file "calls" beside them.
func setup(t *testing.T, commands map[string]string) (calls []string, output string, err error) {
	t.Helper()
	bin := t.TempDir()
	for name, body := range commands {
		script := "#!/bin/sh\necho " + name + " \"$*\" >>" + bin + "/calls\n" + body + "\n"
		if err := os.WriteFile(bin+"/"+name, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "/usr/local/sbin/egress-setup")
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	noted, _ := os.ReadFile(bin + "/calls") // absent when nothing was called
	return strings.Split(strings.TrimSpace(string(noted)), "\n"), string(out), err
}

// system are commands that do nothing and succeed.
func system() map[string]string {
	return map[string]string{"systemctl": "", "apt-get": "", "sleep": "", "journalctl": "echo what the journal says", "sync": ""}
}

// hide makes a program look as if it were not installed.
func hide(t *testing.T, path string) {
	t.Helper()
	if err := unix.Mount("/dev/null", path, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(path, 0) })
}

func TestSetup_installedSquidNeedsNoPackages(t *testing.T) {
	writeUserDataFiles(t, openToClient)
	calls, out, err := setup(t, system())
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := []string{"sync ", "systemctl daemon-reload", "systemctl add-wants multi-user.target squid.service", "systemctl restart squid.service"}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("calls -want, +got:\n%s", diff)
	}
}

func TestSetup_guardedNamesAreResolvedAgain(t *testing.T) {
	spec := openToClient
	spec.GuardedDestinations = []string{"beelink.example.net"}
	writeUserDataFiles(t, spec)
	calls, out, err := setup(t, system())
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if diff := cmp.Diff("systemctl start egress-guard.timer", calls[len(calls)-2]); diff != "" {
		t.Errorf("call before the last -want, +got:\n%s", diff)
	}
}

func TestSetup_movesTheConfigurationWhole(t *testing.T) {
	writeUserDataFiles(t, openToClient)
	if _, out, err := setup(t, system()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for path, want := range map[string]string{
		"/etc/squid/egress":            "root proxy 750",
		"/etc/squid/egress/squid.conf": "root proxy 640",
		"/etc/squid/egress/passwd":     "root proxy 640",
		"/etc/squid/egress/guard.nft":  "root proxy 640",
	} {
		if diff := cmp.Diff(want+"\n", run(t, "stat", "-c", "%U %G %a", path)); diff != "" {
			t.Errorf("%s: owner, group, mode -want, +got:\n%s", path, diff)
		}
	}
	if _, err := os.Stat("/etc/squid/egress.new"); !os.IsNotExist(err) {
		t.Errorf("stat of the staging directory: %v, want it gone", err)
	}
	// Run again, it has nothing to move and changes nothing.
	before := readFile(t, "/etc/squid/egress/squid.conf")
	if _, out, err := setup(t, system()); err != nil {
		t.Fatalf("second run: %v\n%s", err, out)
	}
	if diff := cmp.Diff(before, readFile(t, "/etc/squid/egress/squid.conf")); diff != "" {
		t.Errorf("squid.conf after a second run -want, +got:\n%s", diff)
	}
}

func TestSetup_installsWhatIsMissing(t *testing.T) {
	for name, tc := range map[string]struct {
		hidden []string
		want   string
	}{
		"Both":  {[]string{"/usr/sbin/squid", "/usr/sbin/nft"}, "nftables squid"},
		"Squid": {[]string{"/usr/sbin/squid"}, "squid"},
		"Nft":   {[]string{"/usr/sbin/nft"}, "nftables"},
	} {
		t.Run(name, func(t *testing.T) {
			writeUserDataFiles(t, openToClient)
			for _, path := range tc.hidden {
				hide(t, path)
			}
			calls, out, err := setup(t, system())
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if !strings.HasSuffix(calls[2], " install "+tc.want) {
				t.Errorf("got %q, want it to install %s", calls[2], tc.want)
			}
		})
	}
}

func TestSetup_installIsTriedAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		apt    string
		fails  bool
		tries  int
	}{
		"MirrorComesBack": {"a mirror that does not answer at first is asked again", `[ "$(grep -c 'apt-get.*update' "${0%/*}/calls")" -ge 3 ]`, false, 3},
		"MirrorIsGone":    {"it does not try for ever", "false", true, 10},
	} {
		t.Run(name, func(t *testing.T) {
			writeUserDataFiles(t, openToClient)
			hide(t, "/usr/sbin/squid")
			commands := system()
			commands["apt-get"] = tc.apt
			calls, out, err := setup(t, commands)
			if (err != nil) != tc.fails {
				t.Errorf("%s: got %v, want failure: %t\n%s", tc.reason, err, tc.fails, out)
			}
			updates := strings.Count(strings.Join(calls, "\n"), "apt-get -q update")
			if updates != tc.tries {
				t.Errorf("%s: tried %d times, want %d", tc.reason, updates, tc.tries)
			}
			if tc.fails && !strings.Contains(out, "squid could not be installed") {
				t.Errorf("output %q, want it to say what could not be installed", out)
			}
		})
	}
}

func TestSetup_failsWhenSquidDoesNotStart(t *testing.T) {
	writeUserDataFiles(t, openToClient)
	commands := system()
	commands["systemctl"] = `[ "$1" != restart ]`
	_, out, err := setup(t, commands)
	if err == nil {
		t.Error("want a failure, which cloud-init notes in its result")
	}
	for _, want := range []string{"what the journal says", "squid did not start"} {
		if !strings.Contains(out, want) {
			t.Errorf("output %q, want %q in it", out, want)
		}
	}
}

func TestGuard_failsWithoutItsRule(t *testing.T) {
	installUserData(t, openToClient)
	edit(t, "/etc/squid/egress/guard.nft", "policy accept", "policy nonsense")
	if out, err := exec.CommandContext(t.Context(), "/usr/local/sbin/egress-guard").CombinedOutput(); err == nil {
		t.Errorf("egress-guard succeeded, want a failure: squid must not start without the rule\n%s", out)
	}
}

func TestGuard_loadedAgainKeepsWhatNamesResolvedTo(t *testing.T) {
	startDNS(t, map[string]answer{"hypervisor.test": func(n int) []netip.Addr {
		return parseAddrs([]string{[]string{"10.1.8.8", "10.1.8.9"}[min(n, 1)]})
	}})
	spec := openToClient
	spec.GuardedDestinations = []string{"hypervisor.test"}
	installUserData(t, spec)
	for range 2 {
		run(t, "/usr/local/sbin/egress-guard")
	}
	set := run(t, "nft", "list", "set", "inet", "egress", "guarded4")
	for _, want := range []string{"10.1.8.8", "10.1.8.9"} {
		if !strings.Contains(set, want) {
			t.Errorf("guarded4 is %s, want %s in it", set, want)
		}
	}
}

func TestScripts_shellcheck(t *testing.T) {
	run(t, "shellcheck", "files/egress-setup", "files/egress-guard")
}
