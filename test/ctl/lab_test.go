//go:build integration

// Package ctl_test tries the egressctl program on a real host of the lab (test/lab): what a user sees
// when something is wrong, and what is left after it was killed. The VMs that it makes need not boot.
//
// LAB_DIR names the lab; "make lab-up" makes one. Each test has a storage pool of its own.
package ctl_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// lab is the running lab, by what it says of itself in lab.env.
type lab map[string]string

// host is the one that the tests use.
const host = "kvm1"

// patience is the most that a command inside a host may take.
const patience = time.Minute

func theLab(t *testing.T) lab {
	t.Helper()
	dir := os.Getenv("LAB_DIR")
	if dir == "" {
		t.Fatal("LAB_DIR is not set: run make lab-up, and take the settings that it ends with")
	}
	data, err := os.ReadFile(filepath.Join(dir, "lab.env"))
	if err != nil {
		t.Fatalf("the lab is not up: %v", err)
	}
	l := lab{}
	for line := range strings.Lines(string(data)) {
		key, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if ok {
			l[key] = strings.Trim(value, "'")
		}
	}
	return l
}

// inside runs a command as root inside the host, and gives its output.
func (l lab) inside(t *testing.T, command ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join("..", "lab", "lab"), append([]string{"shell", host, "--"}, command...)...)
	cmd.Env = append(os.Environ(), "LAB_DIR="+l["LAB_DIR"])
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s inside %s: %v\n%s", strings.Join(command, " "), host, err, out)
	}
	return string(out)
}

func (l lab) virsh(t *testing.T, args ...string) string {
	t.Helper()
	return l.inside(t, append([]string{"virsh", "--quiet", "--connect", "qemu:///system"}, args...)...)
}

// pool makes a storage pool of the test's own, on a file system of sizeMiB where that is not 0.
func (l lab) pool(t *testing.T, sizeMiB int) string {
	t.Helper()
	name := "ctl-" + random()
	dir := "/var/lib/libvirt/" + name
	l.inside(t, "mkdir", dir)
	if sizeMiB > 0 {
		l.inside(t, "mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm", sizeMiB), name, dir)
		t.Cleanup(func() { l.inside(t, "umount", dir) })
	}
	l.virsh(t, "pool-create-as", name, "dir", "--target", dir)
	t.Cleanup(func() {
		l.virsh(t, "pool-destroy", name)
		l.inside(t, "sh", "-c", "rm -f "+dir+"/*")
	})
	return name
}

// volumes of a pool, ordered, whatever wrote them.
func (l lab) volumes(t *testing.T, pool string) []string {
	t.Helper()
	l.virsh(t, "pool-refresh", pool)
	var out []string
	for line := range strings.Lines(l.virsh(t, "vol-list", pool)) {
		if fields := strings.Fields(line); len(fields) > 0 {
			out = append(out, fields[0])
		}
	}
	slices.Sort(out)
	return out
}

// domains of the host that use the pool, whatever their state, ordered.
func (l lab) domains(t *testing.T, pool string) []string {
	t.Helper()
	var out []string
	for _, name := range strings.Fields(l.virsh(t, "list", "--all", "--name")) {
		if strings.Contains(l.virsh(t, "dumpxml", name), "/"+pool+"/") {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// image is a small disk image that the lab serves.
type image struct {
	path   string // below the server's root
	sha256 string
}

// tinyImage makes a valid qcow2 of about 2 MiB that no machine boots from.
func (l lab) tinyImage(t *testing.T) image {
	t.Helper()
	dir, err := os.MkdirTemp(l["LAB_WWW"], "ctl-") //nolint:usetesting // below the server's root
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	content := make([]byte, 2<<20)
	if _, err := rand.Read(content); err != nil {
		t.Fatal(err)
	}
	raw, file := filepath.Join(dir, "tiny.raw"), filepath.Join(dir, "tiny.qcow2")
	if err := os.WriteFile(raw, content, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, file).CombinedOutput(); err != nil {
		t.Fatalf("qemu-img: %v\n%s", err, out)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return image{path: "files/" + filepath.Base(dir) + "/tiny.qcow2", sha256: hex.EncodeToString(sum[:])}
}

// url of the image, through a fault of the image server where one is given.
func (l lab) url(img image, fault string) string {
	return l["LAB_IMAGE_BASE"] + "/" + fault + img.path
}

func random() string { return strings.ToLower(rand.Text()[:8]) }
