//go:build integration

package cloudinit_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
	"sigs.k8s.io/yaml"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/cloudinit"
)

// proxy is a running squid, made from a Spec's user-data as cloud-init would make it: every file at
// its own path, byte for byte, and started with the commands of the systemd unit.
type proxy struct{ port int }

func (p proxy) address() string { return net.JoinHostPort(proxyAddr, strconv.Itoa(p.port)) }

func startProxy(t *testing.T, spec cloudinit.Spec) proxy {
	t.Helper()
	installUserData(t, spec)
	return startInstalled(t, spec)
}

// startInstalled starts what installUserData left, perhaps changed since.
func startInstalled(t *testing.T, spec cloudinit.Spec) proxy {
	t.Helper()
	unit := readFile(t, "/etc/systemd/system/squid.service.d/egress.conf")
	for _, line := range unitCommands(unit, "ExecStartPre") {
		run(t, strings.Fields(line)...)
	}
	p := proxy{port: spec.Port}
	if p.port == 0 {
		p.port = cloudinit.DefaultPort
	}
	start := unitCommands(unit, "ExecStart")
	if len(start) != 1 {
		t.Fatalf("ExecStart of %q: want one command", unit)
	}
	p.run(t, strings.Fields(start[0]))
	return p
}

func (p proxy) run(t *testing.T, args []string) {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.Command(args[0], append(args[1:], "-d1")...) // killed with its children below
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start squid: %v", err)
	}
	died := make(chan struct{})
	go func() { cmd.Wait(); close(died) }()
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-died
		os.Remove("/run/squid.pid")
		if t.Failed() {
			t.Logf("squid said:\n%s", log.String())
		}
	})
	waitFor(t, 20*time.Second, "squid to listen", func() bool {
		select {
		case <-died:
			t.Fatalf("squid ended:\n%s", log.String())
		default:
		}
		conn, err := net.Dial("tcp", p.address())
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// installUserData writes the files and does what egress-setup does with them.
func installUserData(t *testing.T, spec cloudinit.Spec) {
	t.Helper()
	writeUserDataFiles(t, spec)
	bin := fakeSystem(t)
	cmd := exec.CommandContext(t.Context(), "/usr/local/sbin/egress-setup")
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("egress-setup: %v\n%s", err, out)
	}
}

// userData is what these tests read of a cloud-config.
type userData struct {
	WriteFiles []struct{ Path, Owner, Permissions, Content string } `json:"write_files"`
}

func writeUserDataFiles(t *testing.T, spec cloudinit.Spec) {
	t.Helper()
	rendered, err := cloudinit.Render(spec)
	if err != nil {
		t.Fatalf("Render: %v", err)
	}
	var data userData
	if err := yaml.Unmarshal([]byte(rendered), &data); err != nil {
		t.Fatalf("read the user-data: %v", err)
	}
	for _, left := range []string{"/etc/squid/egress", "/etc/squid/egress.new", "/etc/systemd/system/egress-guard.timer", "/run/egress"} {
		if err := os.RemoveAll(left); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range data.WriteFiles {
		if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f.Path, []byte(f.Content), 0o600); err != nil {
			t.Fatal(err)
		}
		run(t, "chown", f.Owner, f.Path)
		run(t, "chmod", f.Permissions, f.Path)
	}
}

// fakeSystem gives a directory with a systemctl that notes how it was called in "calls".
func fakeSystem(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\necho \"$*\" >>" + dir + "/calls\n"
	if err := os.WriteFile(dir+"/systemctl", []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// unitCommands gives the values of a key in a unit file, without systemd's prefix for full privileges; an
// empty value clears those before.
func unitCommands(unit, key string) []string {
	var out []string
	for line := range strings.Lines(unit) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok {
			if value == "" {
				out = nil
			} else {
				out = append(out, strings.TrimPrefix(value, "+"))
			}
		}
	}
	return out
}

// client says who asks the proxy.
type client struct {
	Source         string // clientAddr
	User, Password string
}

// reply is what came back through the proxy.
type reply struct {
	Status int
	Header http.Header
	Body   string
}

// ask sends one request, with its line as given, and the headers ("Name: value").
func (p proxy) ask(t *testing.T, c client, method, target string, headers ...string) reply {
	t.Helper()
	if c.Source == "" {
		c.Source = clientAddr
	}
	conn := dialFrom(t, c.Source, p.address())
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	lines := []string{method + " " + target + " HTTP/1.1", "Host: " + hostOf(target)}
	if c.User != "" {
		lines = append(lines, "Proxy-Authorization: Basic "+base64.StdEncoding.EncodeToString([]byte(c.User+":"+c.Password)))
	}
	lines = append(append(lines, headers...), "", "")
	if _, err := io.WriteString(conn, strings.Join(lines, "\r\n")); err != nil {
		t.Fatalf("write the request: %v", err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%s %s: read the response: %v", method, target, err)
	}
	out := reply{Status: resp.StatusCode, Header: resp.Header}
	if method != http.MethodConnect {
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatalf("%s %s: read the body: %v", method, target, err)
		}
		out.Body = string(body)
	}
	return out
}

func (p proxy) get(t *testing.T, c client, url string, headers ...string) reply {
	t.Helper()
	return p.ask(t, c, http.MethodGet, url, append(headers, "Connection: close")...)
}

func (p proxy) connect(t *testing.T, c client, authority string) reply {
	t.Helper()
	return p.ask(t, c, http.MethodConnect, authority)
}

func hostOf(target string) string {
	_, rest, found := strings.Cut(target, "://")
	if !found {
		return target
	}
	host, _, _ := strings.Cut(rest, "/")
	return host
}

// hash is bcrypt's cheapest.
func hash(t *testing.T, password string) string {
	t.Helper()
	out, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// waitFor polls until ok, or fails after limit.
func waitFor(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("waited %s for %s", limit, what)
		case <-tick.C:
		}
	}
}
