//go:build integration

package ctl_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// reasonsOf runs a check, and gives the reasons of what it found on the host.
func reasonsOf(t *testing.T, u user) (reasons []string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	e := u.run(ctx, t, "check", "-o", "json")
	var got struct {
		Hosts []struct {
			Reason   string
			Findings []provider.Finding
		}
	}
	if err := json.Unmarshal([]byte(e.stdout), &got); err != nil {
		t.Fatalf("%v: %s%s", err, e.stdout, e.stderr)
	}
	for _, h := range got.Hosts {
		reasons = append(reasons, h.Reason)
		for _, f := range h.Findings {
			t.Logf("%s %s: %s; %s", f.Severity, f.Reason, f.Message, f.Remedy)
			reasons = append(reasons, f.Reason)
		}
	}
	return reasons, e.code
}

// TestCheck_findsWhatIsWrongWithAHost makes each fault on the real host, and mends it.
func TestCheck_findsWhatIsWrongWithAHost(t *testing.T) {
	l := theLab(t)
	pool, small := l.pool(t, 0), l.pool(t, 64)
	img := l.tinyImage(t)
	uefi := func(c *provider.KVMConfig) {
		i := c.Images["tiny"]
		i.Firmware = provider.FirmwareUEFI
		c.Images["tiny"] = i
	}
	cases := map[string]struct {
		fault  func(t *testing.T)
		change func(c *provider.KVMConfig)
		want   string
		code   int
	}{
		"Nothing": {change: uefi, want: provider.ReasonReady},
		"OVMFMissing": {func(t *testing.T) {
			l.inside(t, "mount", "-t", "tmpfs", "none", "/usr/share/qemu/firmware")
			l.inside(t, "mount", "-t", "tmpfs", "none", "/usr/share/OVMF")
			t.Cleanup(func() { l.inside(t, "umount", "/usr/share/OVMF", "/usr/share/qemu/firmware") })
		}, uefi, "FirmwareUnavailable", egressctl.CodeNotReady},
		"PoolStopped": {func(t *testing.T) {
			l.virsh(t, "pool-define-as", "stopped-pool", "dir", "--target", "/var/lib/libvirt/stopped-pool")
			t.Cleanup(func() { l.virsh(t, "pool-undefine", "stopped-pool") })
		}, func(c *provider.KVMConfig) { c.Hosts[0].Pool = "stopped-pool" }, provider.ReasonPoolNotActive, egressctl.CodeNotReady},
		"SocketForbidden": {func(t *testing.T) {
			l.inside(t, "chmod", "0700", "/run/libvirt/libvirt-sock")
			t.Cleanup(func() { l.inside(t, "chmod", "0770", "/run/libvirt/libvirt-sock") })
		}, nil, provider.ReasonPermissionDenied, egressctl.CodeNotReady},
		"BridgeMissing": {change: func(c *provider.KVMConfig) { c.Hosts[0].Bridge = "br9" }, want: "BridgeNotFound", code: egressctl.CodeNotReady},
		"NotABridge":    {change: func(c *provider.KVMConfig) { c.Hosts[0].Bridge = "lo" }, want: "NotABridge", code: egressctl.CodeNotReady},
		"LittleSpace":   {change: func(c *provider.KVMConfig) { c.Hosts[0].Pool = small }, want: "LittleSpace", code: egressctl.CodeNotReady},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.fault != nil {
				tc.fault(t)
			}
			change := unchanged
			if tc.change != nil {
				change = tc.change
			}
			got, code := reasonsOf(t, l.newUser(t, pool, img, change))
			if !slices.Contains(got, tc.want) || code != tc.code {
				t.Errorf("reasons %v, exit code %d; want %s and %d", got, code, tc.want, tc.code)
			}
		})
	}
}

// TestConsole_ofAVMThatDoesNotBoot reads the firmware's words of a VM whose disk holds nothing to boot.
func TestConsole_ofAVMThatDoesNotBoot(t *testing.T) {
	l := theLab(t)
	pool := l.pool(t, 0)
	u := l.newUser(t, pool, l.tinyImage(t), func(c *provider.KVMConfig) {
		i := c.Images["tiny"]
		i.Firmware = provider.FirmwareUEFI
		c.Images["tiny"] = i
	})
	u.must(t, create("blank-1")...)
	said := ""
	for deadline := time.Now().Add(5 * time.Minute); !strings.Contains(said, "BdsDxe"); said = u.must(t, "console", "blank-1").stdout {
		if time.Now().After(deadline) {
			t.Fatalf("the console says only %q", said)
		}
	}
	t.Log(said)
	if strings.ContainsRune(said, '\x1b') {
		t.Errorf("an escape sequence reached standard output: %q", said)
	}
	if raw := u.must(t, "console", "blank-1", "--raw").stdout; !strings.ContainsRune(raw, '\x1b') {
		t.Errorf("--raw took the escape sequences out: %q", raw)
	}
	u.must(t, "delete", "blank-1")
	checkOnlyImageLeft(t, l, pool)
}

// TestImages_removesWhatNobodyUses keeps the base of a foreign overlay that was made by hand.
func TestImages_removesWhatNobodyUses(t *testing.T) {
	l := theLab(t)
	pool := l.pool(t, 0)
	u := l.newUser(t, pool, l.tinyImage(t), unchanged)
	u.must(t, create("image-1")...)
	u.must(t, "images", "--remove-unused", "--yes")
	if left := l.volumes(t, pool); len(left) < 4 {
		t.Fatalf("%v are left: the image of an instance was removed", left)
	}
	u.must(t, "delete", "image-1")
	dir := "/var/lib/libvirt/" + pool
	base := l.volumes(t, pool)[0]
	l.inside(t, "qemu-img", "create", "-f", "qcow2", "-b", dir+"/"+base, "-F", "qcow2", dir+"/theirs.qcow2")
	if e := u.must(t, "images"); !strings.Contains(e.stdout, "theirs.qcow2") {
		t.Errorf("the foreign overlay is not listed as a user:\n%s", e.stdout)
	}
	u.must(t, "images", "--remove-unused", "--yes")
	if left := l.volumes(t, pool); len(left) != 3 {
		t.Errorf("%v are left, want base, marker and the overlay that stands on the base", left)
	}
	l.inside(t, "rm", dir+"/theirs.qcow2")
	u.must(t, "images", "--remove-unused")
	if left := l.volumes(t, pool); len(left) != 2 {
		t.Errorf("%v are left: without --yes nothing is removed", left)
	}
	u.must(t, "images", "--remove-unused", "--yes")
	if left := l.volumes(t, pool); len(left) != 0 {
		t.Errorf("%v are left, want nothing", left)
	}
	u.must(t, create("image-2")...)
	u.must(t, "delete", "image-2")
}
