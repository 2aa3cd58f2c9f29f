//go:build integration

package kvm2

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// cyclesAtOnce is how many instances are under way at a time.
const cyclesAtOnce = 4

// TestKVM2_cyclesLeaveNothing creates, gets and deletes instances on a real host, several at a time, and
// wants what there was before: domains, volumes, goroutines, descriptors and connections, those that the
// host counts included where it is a host of the lab. The instances' disk is blank, so none boots.
func TestKVM2_cyclesLeaveNothing(t *testing.T) {
	cycles, err := strconv.Atoi(envOr("KVM2_TEST_CYCLES", "50"))
	if err != nil {
		t.Fatalf("KVM2_TEST_CYCLES: %v", err)
	}
	it := newIntegration(t)
	it.useBlankImage(t)
	before := it.counts(t)
	t.Logf("before: %+v", before)

	p, err := provider.Registry{provider.TypeKVM2: New}.New(it.entry, provider.Options{Owner: it.request.Owner, Log: it.log})
	if err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	it.cycle(t, p)
	warm := it.counts(t) // with the connection that the provider keeps, and the image
	names := make(chan struct{})
	var workers sync.WaitGroup
	for range cyclesAtOnce {
		workers.Go(func() {
			for range names {
				it.cycle(t, p)
			}
		})
	}
	for range cycles - 1 {
		names <- struct{}{}
	}
	close(names)
	workers.Wait()
	t.Logf("%d cycles, %d at once, in %v", cycles, cyclesAtOnce, time.Since(started).Round(time.Second))
	it.eventually(t, "after the cycles, with the provider open", warm)

	closeProvider(t, p)
	it.removeImage(t)
	it.eventually(t, "after the provider's end", before)
}

// cycle is the life of an instance of its own.
func (it *integration) cycle(t *testing.T, p provider.Provider) {
	t.Helper()
	one := *it
	one.renew()
	id, err := p.Create(t.Context(), one.request)
	if err != nil {
		t.Errorf("create: %v", err)
	} else if inst, err := p.Get(t.Context(), id); err != nil || inst.UID != one.request.UID {
		t.Errorf("get gives the UID %q and %v, want %q", inst.UID, err, one.request.UID)
	}
	if err := p.Delete(t.Context(), one.id()); err != nil {
		t.Errorf("delete: %v", err)
	}
}

// useBlankImage has the entry's image be a disk with nothing on it but a boot sector's signature and
// something that no other run has, which this process serves to itself.
func (it *integration) useBlankImage(t *testing.T) {
	t.Helper()
	disk := make([]byte, 1<<20)
	copy(disk, []byte{0xFA, 0xF4, 0xEB, 0xFD}) // cli, hlt, and again: a BIOS that starts it burns no processor
	disk[510], disk[511] = 0x55, 0xAA
	_, _ = rand.Read(disk[1024:1040]) // never fails
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(disk)))
		_, _ = w.Write(disk) // the client may have left
	}))
	server.Config.SetKeepAlivesEnabled(false) // or a connection that ends some time would be counted
	server.Start()
	t.Cleanup(server.Close)
	config := it.entry.KVM2
	config.Images = map[string]provider.KVMImage{"image": {
		URL: server.URL + "/blank.raw", SHA256: hexSum(disk), Format: provider.FormatRaw, Firmware: provider.FirmwareUEFI,
	}}
	config.MachineTypes = map[string]provider.KVMMachineType{"small": {VCPUs: 1, MemoryMiB: 256, DiskSizeGb: 1}}
	t.Cleanup(func() { it.removeImage(t) })
}

// removeImage removes the blank image's base and marker, as nobody needs them again.
func (it *integration) removeImage(t *testing.T) {
	t.Helper()
	key := keyFor(t, it.entry.KVM2.Images["image"])
	it.look(t, func(ctx context.Context, c conn) error {
		p, err := c.StoragePoolLookupByName(ctx, it.host.Pool)
		if err != nil {
			return err
		}
		all, err := c.StoragePoolListAllVolumes(ctx, p)
		for _, vol := range all {
			if vol.Name == key.marker() || key.isBase(vol.Name) {
				if err := c.StorageVolDelete(ctx, vol); err != nil {
					return err
				}
			}
		}
		return err
	})
}

// counts are what must not grow with the number of calls.
type counts struct {
	Domains, Volumes []string
	// Goroutines, Descriptors and Sockets of this process.
	Goroutines, Descriptors, Sockets int
	// Clients and LibvirtdDescriptors are libvirtd's, -1 where the host is not one of the lab.
	Clients, LibvirtdDescriptors int
}

func (it *integration) counts(t *testing.T) counts {
	t.Helper()
	c := counts{Domains: it.domains(t), Volumes: it.volumes(t), Clients: -1, LibvirtdDescriptors: -1}
	if os.Getenv("LAB_DIR") != "" {
		c.Clients = strings.Count(labShell(t, "virt-admin -c libvirtd:///system srv-clients-list libvirtd"), "unix")
		fds, err := strconv.Atoi(strings.TrimSpace(labShell(t, "ls /proc/$(pidof -s libvirtd)/fd | wc -l")))
		if err != nil {
			t.Fatal(err)
		}
		c.LibvirtdDescriptors = fds
	}
	c.Goroutines = runtime.NumGoroutine()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	c.Descriptors = len(entries)
	for _, e := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(target, "socket:") {
			c.Sockets++
		}
	}
	return c
}

// labShell runs a command as root inside the lab's host.
func labShell(t *testing.T, command string) string {
	t.Helper()
	host, _, _ := strings.Cut(os.Getenv("LAB_HOST_NAMES"), " ")
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "../../../test/lab/lab", "shell", host, "--", "sh", "-c", command).CombinedOutput()
	if err != nil {
		t.Fatalf("%s inside %s: %v\n%s", command, host, err, out)
	}
	return string(out)
}

// eventually waits until the counts are as wanted: what the far ends close takes them a moment.
func (it *integration) eventually(t *testing.T, when string, want counts) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		got := it.counts(t)
		diff := cmp.Diff(want, got)
		if diff == "" {
			t.Logf("%s: %+v", when, got)
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Errorf("%s: -before, +now:\n%s", when, diff)
			return
		}
	}
}
