//go:build integration

package cloudinit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// These tests run in a PID, mount and network namespace of their own, so that squid, its files at
// their real paths, and addresses that belong to others on the Internet are seen by nobody else, and
// nothing is left when the tests end.
//
// In the namespace, squid's machine has the address proxyAddr on a network with a second namespace,
// "outside", which is all the rest of the world: every address there answers.
const (
	inside  = "EGRESS_TEST_NAMESPACE"
	outside = "outside"

	proxyAddr    = "192.168.77.2"
	clientAddr   = "192.168.77.1" // outside, and the proxy's gateway
	strangerAddr = "192.168.77.9" // outside, on the same network
	proxyAddr6   = "2a00:77::2"
	neighbour6   = "2a00:77::5" // outside, on the same network
)

func TestMain(m *testing.M) {
	if os.Getenv(inside) == "" {
		os.Exit(enterNamespaces())
	}
	if err := prepareNamespaces(); err != nil {
		fmt.Fprintln(os.Stderr, "prepare the namespaces (needs root):", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// enterNamespaces runs this test binary again inside, and gives its exit code.
func enterNamespaces() int {
	cmd := exec.CommandContext(context.Background(), "/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
	}
	runtime.LockOSThread() // Pdeathsig is the thread's
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode()
	case err != nil:
		fmt.Fprintln(os.Stderr, "enter the namespaces (needs root):", err)
		return 1
	}
	return 0
}

func prepareNamespaces() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	for _, dir := range []string{"/run", "/dev/shm", "/etc/squid", "/etc/systemd/system", "/usr/local/sbin", "/var/log/squid", "/var/spool/squid"} {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
			return fmt.Errorf("mount a tmpfs on %s: %w", dir, err)
		}
	}
	for path, content := range map[string]string{
		"/etc/resolv.conf": "nameserver 127.0.0.53\n",
		"/etc/hosts":       "127.0.0.1 localhost\n::1 localhost\n",
	} {
		if err := cover(path, content); err != nil {
			return err
		}
	}
	return prepareNetwork()
}

// cover puts a file with the given content over path.
func cover(path, content string) error {
	ours := "/run/" + strings.ReplaceAll(path[1:], "/", "-")
	if err := os.WriteFile(ours, []byte(content), 0o644); err != nil {
		return err
	}
	if err := unix.Mount(ours, path, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cover %s: %w", path, err)
	}
	return nil
}

func prepareNetwork() error {
	for _, line := range []string{
		"ip link set lo up",
		"ip netns add " + outside,
		"ip -n outside link set lo up",
		"ip link add lan type veth peer name lan netns " + outside,
		"ip link set lan up",
		"ip -n outside link set lan up",
		"ip address add " + proxyAddr + "/24 dev lan",
		"ip -6 address add " + proxyAddr6 + "/64 dev lan nodad",
		"ip -n outside address add " + clientAddr + "/24 dev lan",
		"ip -n outside address add " + strangerAddr + "/24 dev lan",
		"ip -n outside -6 address add fe80::1/64 dev lan nodad",
		"ip -n outside -6 address add " + neighbour6 + "/64 dev lan nodad",
		"ip route add default via " + clientAddr,
		"ip -6 route add default via fe80::1 dev lan",
		// Outside, every address that is not on the common network is a local one.
		"ip -n outside route add local default dev lo table main",
		"ip -n outside -6 route add local default dev lo table main",
	} {
		args := strings.Fields(line)
		if out, err := exec.CommandContext(context.Background(), args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", line, err, out)
		}
	}
	return nil
}

// inOutside runs f on a thread that is in the outside namespace: sockets that f makes stay there.
func inOutside(f func() error) error {
	done := make(chan error)
	go func() {
		// Not unlocked: the thread ends with the goroutine and nobody else gets it.
		runtime.LockOSThread()
		ns, err := os.Open("/run/netns/" + outside)
		if err == nil {
			defer ns.Close()
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// dialFrom connects from an address outside.
func dialFrom(t *testing.T, source, target string) net.Conn {
	t.Helper()
	var conn net.Conn
	err := inOutside(func() (err error) {
		dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(source), 0))}
		conn, err = dialer.DialContext(t.Context(), "tcp", target)
		return err
	})
	if err != nil {
		t.Fatalf("connect from %s to %s: %v", source, target, err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}
