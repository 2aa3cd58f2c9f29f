package egressctl_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl"
)

const oneBroken = `checkURL: none
providers:
- name: kvm2-bad
  type: kvm2
  kvm2: {hosts: [], colour: red}
`

func TestConfig_placesInOrder(t *testing.T) {
	d := newDesk(t, "beelink")
	content := d.read("providers.yaml")
	here := filepath.Join(d.dir, "here")
	flag := d.write("flag.yaml", strings.ReplaceAll(content, "kvm2-home", "by-flag"))
	byEnv := d.write("env.yaml", strings.ReplaceAll(content, "kvm2-home", "by-env"))
	d.write("here/providers.yaml", strings.ReplaceAll(content, "kvm2-home", "by-directory"))
	d.write("xdg/egressctl/providers.yaml", strings.ReplaceAll(content, "kvm2-home", "by-xdg"))
	d.write("home/.config/egressctl/providers.yaml", strings.ReplaceAll(content, "kvm2-home", "by-home"))
	if err := os.MkdirAll(filepath.Join(d.dir, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	env := func(config, xdg, home string) map[string]string {
		return map[string]string{
			"EGRESSCTL_CONFIG": config, "XDG_CONFIG_HOME": xdg, "HOME": home,
			"EGRESSCTL_STATE_DIR": filepath.Join(d.dir, "state"),
		}
	}
	xdg, home := filepath.Join(d.dir, "xdg"), filepath.Join(d.dir, "home")
	cases := map[string]struct {
		reason string
		dir    string
		env    map[string]string
		args   []string
		want   string
	}{
		"Flag":      {"--config wins over all", here, env(byEnv, xdg, home), []string{"--config", flag}, "by-flag"},
		"Env":       {"EGRESSCTL_CONFIG comes second", here, env(byEnv, xdg, home), nil, "by-env"},
		"Directory": {"then the file in the working directory", here, env("", xdg, home), nil, "by-directory"},
		"XDG":       {"then XDG_CONFIG_HOME", filepath.Join(d.dir, "empty"), env("", xdg, home), nil, "by-xdg"},
		"Home":      {"whose default is ~/.config", filepath.Join(d.dir, "empty"), env("", "", home), nil, "by-home"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Chdir(tc.dir)
			d.env = tc.env
			if out := d.must(append([]string{"check"}, tc.args...)...).out; !strings.Contains(out, tc.want) {
				t.Errorf("%s: want the entry %s, got:\n%s", tc.reason, tc.want, out)
			}
		})
	}
	t.Run("Nowhere", func(t *testing.T) {
		t.Chdir(filepath.Join(d.dir, "empty"))
		d.env = env("", "", "")
		wantFailure(t, d.run("check"), egressctl.CodeUsage, "providers.yaml", "EGRESSCTL_CONFIG")
	})
}

func TestState_worksWithoutHome(t *testing.T) {
	d := newDesk(t, "beelink")
	delete(d.env, "EGRESSCTL_STATE_DIR")
	wantFailure(t, d.run("list"), egressctl.CodeUsage, "--state-dir", "EGRESSCTL_STATE_DIR")
	d.must("list", "--state-dir", filepath.Join(d.dir, "other"))
	if _, err := os.Stat(filepath.Join(d.dir, "other", "owner")); err != nil {
		t.Errorf("the identity is not in the directory of --state-dir: %v", err)
	}
}

func TestEntry_isChosenWhereItIsClear(t *testing.T) {
	d := newDesk(t, "beelink")
	d.write("providers.yaml", d.read("providers.yaml")+entry("kvm2-lab", "cedar"))
	wantFailure(t, d.run(open("berlin-1")...), egressctl.CodeUsage, "--entry is needed", "kvm2-home and kvm2-lab")
	d.must(open("berlin-1", "--entry", "kvm2-lab")...)
	// Now there is a record of that name, in one entry only.
	d.must("get", "berlin-1")
	d.must(open("berlin-1", "--entry", "kvm2-home")...)
	wantFailure(t, d.run("get", "berlin-1"), egressctl.CodeUsage, "--entry is needed")
	if n := len(d.backend.Instances()); n != 2 {
		t.Errorf("%d instances, want one for each entry", n)
	}
}

func TestEntry_aBrokenOneDoesNotStopTheOthers(t *testing.T) {
	d := newDesk(t, "beelink")
	d.write("providers.yaml", oneBroken+entry("kvm2-home", "beelink"))
	d.must(open("berlin-1", "--entry", "kvm2-home")...)
	wantFailure(t, d.run(open("berlin-2", "--entry", "kvm2-bad")...), egressctl.CodeUsage, "kvm2-bad", "providers[0].kvm2.colour")
}
