//go:build e2e

package incluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func nodeIsReady(t *testing.T, s *story) {
	if processes := inNode(t, s); len(processes) > 0 {
		t.Fatal("a node runs already; the test starts and ends one of its own: run 'make node-down' first")
	}
	s.traces = traces(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("the node is left for a look: test/node/node shell; end it with 'make node-down'")
		}
	})
	t.Log(must(t, "", "./test/node/node", "up"))
	t.Log(must(t, "", "./test/node/node", "import", "bin/operator-image/operator.tar", "docker.io/library/"+operator))
	s.connect(t)
	s.kubectl(t, "get", "nodes", "-o", "wide")
}

// nodeLeavesNothing ends the node after parts of it were killed, as a crash would.
func nodeLeavesNothing(t *testing.T, s *story) {
	killed := 0
	for _, process := range inNode(t, s) {
		switch process.name {
		case "kubelet", "containerd", "unshare":
			if err := syscall.Kill(process.pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			killed++
		}
	}
	if killed != 3 {
		t.Errorf("%d processes were killed, want kubelet, containerd and the holder of the namespaces", killed)
	}
	must(t, "", "./test/node/node", "down")
	if left := inNode(t, s); len(left) > 0 {
		t.Errorf("processes of the node still run: %v", left)
	}
	if diff := cmp.Diff(s.traces, traces(t)); diff != "" {
		t.Errorf("before and after the node differ: -before, +after:\n%s", diff)
	}
	must(t, "", "./test/node/node", "down") // with nothing there
}

type process struct {
	pid  int
	name string
}

// inNode lists the processes that belong to the node: its holder, and what is in a process namespace whose
// command lines or working files name the node's directory.
func inNode(t *testing.T, s *story) []process {
	t.Helper()
	namespaces := map[string]bool{}
	var all []process
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	var found []process
	for _, file := range files {
		directory := filepath.Dir(file)
		// A process that ended between two reads has nothing to show.
		line, _ := os.ReadFile(file)
		name, _ := os.ReadFile(filepath.Join(directory, "comm"))
		pid, _ := strconv.Atoi(filepath.Base(directory))
		p := process{pid, strings.TrimSpace(string(name))}
		all = append(all, p)
		if p.name == "unshare" && bytes.Contains(line, []byte("egress-node:"+s.lab["LAB_DIR"]+"\x00")) {
			found = append(found, p)
		} else if bytes.Contains(line, []byte(s.nodeDir+"/")) {
			if link, err := os.Readlink(filepath.Join(directory, "ns", "pid")); err == nil && link != own {
				namespaces[link] = true
			}
		}
	}
	for _, p := range all {
		if link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", p.pid)); err == nil && namespaces[link] {
			found = append(found, p)
		}
	}
	return found
}

// traces is what a node could leave on this machine.
func traces(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for name, command := range map[string]string{
		// Labs come and go beside this one; their own tests look after their links.
		"links":       "ip -o link | sed 's/^[0-9]*: //; s/ .*//' | grep -v '^lab' | sort",
		"lab's links": "./test/lab/lab shell fabric -- ip -o link | sed 's/^[0-9]*: //; s/ .*//' | sort",
		"routes":      "ip route show table all | grep -v ' lab[0-9]' | sort",
		"mounts":      "cut -d' ' -f5 /proc/self/mountinfo | sort",
		"cgroups":     ". test/node/parts/cgroups.sh && find /sys/fs/cgroup -type d -name \"$(cgroup_name)\"",
		"sysctls":     "cd /proc/sys && grep -H . vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_max* net/ipv4/ip_forward",
		"files":       "ls -d /run/containerd /var/lib/kubelet /var/lib/cni /var/log/pods /var/log/containers /run/netns /usr/libexec/kubernetes /etc/kubernetes /etc/cni/net.d/10-lan.conflist $LAB_DIR/node 2>/dev/null || true",
	} {
		found[name] = must(t, "", "bash", "-c", command)
	}
	return found
}
