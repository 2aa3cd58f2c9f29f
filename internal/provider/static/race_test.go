package static

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// named is the request of a name, the same in every process.
func named(zone, name string) provider.CreateRequest {
	req := requestIn(zone)
	req.Name, req.UID = name, provider.UIDFor(ownerName, entryName, name)
	return req
}

// mustRig makes a lease directory with one zone.
func mustRig(t *testing.T, endpoints int) *rig {
	t.Helper()
	r, err := newRig(t.TempDir(), map[string]int{"attic": endpoints}, "attic")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) operator() *Provider { return r.provider(r.config, provider.Options{Owner: ownerName}) }

// standing gives the endpoints' files by name, from an independent look.
func (r *rig) standing(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	if err := r.each("endpoints", func(file, _ string, l looked) { out[l.Name] = append(out[l.Name], file) }); err != nil {
		t.Fatal(err)
	}
	return out
}

// R5.1.3: providers that share nothing but the directory, each asked for every name.
func TestCreate_providersOnOneDirectoryGiveOneLeaseEach(t *testing.T) {
	const names, operators = 12, 4
	r := mustRig(t, names+1)
	var all sync.WaitGroup
	for range operators {
		p := r.operator()
		for n := range names {
			all.Go(func() {
				req := named("attic", fmt.Sprintf("n-%d", n))
				_, err := p.Create(t.Context(), req)
				for tries := 0; errors.Is(err, provider.ErrTransient) && tries < 20; tries++ {
					_, err = p.Create(t.Context(), req)
				}
				// A pool that is full of leases which lose their race in this moment has no room in this moment.
				if err != nil && !errors.Is(err, provider.ErrQuotaExceeded) {
					t.Errorf("Create: %v", err)
				}
			})
		}
	}
	all.Wait()
	p := r.operator()
	for n := range names {
		if _, err := p.Create(t.Context(), named("attic", fmt.Sprintf("n-%d", n))); err != nil {
			t.Errorf("Create when the others are done: %v", err)
		}
	}
	list, err := p.ListByTag(t.Context())
	if err != nil || len(list) != names {
		t.Fatalf("ListByTag gives %d instances, %v, want %d", len(list), err, names)
	}
	addresses := map[string]string{}
	for _, inst := range list {
		if inst.State != provider.StateRunning {
			t.Errorf("%s is %s", inst.Name, inst.State)
		}
		if other, taken := addresses[inst.Addresses[0]]; taken {
			t.Errorf("%s and %s have one endpoint, %s", inst.Name, other, inst.Addresses[0])
		}
		addresses[inst.Addresses[0]] = inst.Name
	}
	for name, files := range r.standing(t) {
		if len(files) != 1 {
			t.Errorf("%s holds %q, want one endpoint", name, files)
		}
	}
}

// Two operators want the last endpoints, for names of their own: each endpoint goes to one of them.
func TestCreate_ofMoreNamesThanEndpoints(t *testing.T) {
	const endpoints, names = 5, 16
	r := mustRig(t, endpoints)
	operators := []*Provider{r.operator(), r.operator()}
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		got  int
		full int
	)
	for n := range names {
		all.Go(func() {
			_, err := operators[n%2].Create(t.Context(), named("attic", fmt.Sprintf("n-%d", n)))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				got++
			case errors.Is(err, provider.ErrQuotaExceeded):
				full++
			default:
				t.Errorf("Create: %v", err)
			}
		})
	}
	all.Wait()
	if got != endpoints || full != names-endpoints {
		t.Errorf("%d names got an endpoint and %d found none free, want %d and %d", got, full, endpoints, names-endpoints)
	}
}

const envDirectory = "STATIC_TEST_LEASE_DIRECTORY"

// TestMain lets the test's binary be the other process of TestCreate_twoProcessesGiveOneLeaseEach.
func TestMain(m *testing.M) {
	if root := os.Getenv(envDirectory); root != "" {
		if err := leaseAll(context.Background(), root); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// leaseAll leases an endpoint for each name and prints which.
func leaseAll(ctx context.Context, root string) error {
	config := processConfig(root)
	p := build(entryName, config, provider.Options{Owner: ownerName}, newLimited(directory{root}, config.Zones()))
	for n := range processNames {
		id, err := p.Create(ctx, named("attic", fmt.Sprintf("n-%d", n)))
		if err != nil {
			return err
		}
		inst, err := p.Get(ctx, id)
		if err != nil {
			return err
		}
		fmt.Println("leased", id, inst.Addresses)
	}
	return nil
}

const processNames = 40

func processConfig(root string) provider.StaticConfig {
	config := provider.StaticConfig{LeaseDirectory: root}
	for n := range processNames + 5 {
		config.Endpoints = append(config.Endpoints, provider.StaticEndpoint{
			Name: fmt.Sprintf("e-%d", n), Zone: "attic", Address: fmt.Sprintf("198.18.0.%d", n+1), Port: 3128,
		})
	}
	return config
}

// R5.1.3 with processes of the system: both lease the same names, and must come to the same endpoints.
func TestCreate_twoProcessesGiveOneLeaseEach(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(root+"/endpoints", 0o700); err != nil {
		t.Fatal(err)
	}
	outputs := make([]string, 2)
	var all sync.WaitGroup
	for i := range outputs {
		all.Go(func() {
			other := exec.CommandContext(t.Context(), os.Args[0])
			other.Env = append(os.Environ(), envDirectory+"="+root)
			out, err := other.CombinedOutput()
			if err != nil {
				t.Errorf("process %d: %v\n%s", i, err, out)
			}
			for line := range strings.Lines(string(out)) {
				if strings.HasPrefix(line, "leased ") {
					outputs[i] += line
				}
			}
		})
	}
	all.Wait()
	if diff := cmp.Diff(outputs[0], outputs[1]); diff != "" {
		t.Errorf("the processes got other endpoints (-first, +second):\n%s", diff)
	}
	if n := strings.Count(outputs[0], "\n"); n != processNames {
		t.Errorf("the first process leased %d endpoints, want %d", n, processNames)
	}
	r := &rig{root: root}
	if standing := r.standing(t); len(standing) != processNames {
		t.Errorf("%d names stand in the directory, want %d", len(standing), processNames)
	}
	for name, files := range r.standing(t) {
		if len(files) != 1 {
			t.Errorf("%s holds %q, want one endpoint", name, files)
		}
	}
}

// What a process leaves that loses a race and dies before it gives its endpoint back is free again when it is needed.
func TestCreate_takesWhatALostRaceLeft(t *testing.T) {
	r := mustRig(t, 2)
	p := r.operator()
	id, err := p.Create(t.Context(), named("attic", "first"))
	if err != nil {
		t.Fatal(err)
	}
	e := r.config.Endpoints[1]
	req := named("attic", "first")
	content, err := newLease(mustParse(id), e, req, p.now()).encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := (directory{r.root}).Make(t.Context(), "attic", claimFile(e.Address, e.Port), content); err != nil {
		t.Fatal(err)
	}
	list, err := p.ListByTag(t.Context())
	if err != nil || len(list) != 1 {
		t.Errorf("ListByTag gives %d instances, %v, want the one that holds", len(list), err)
	}
	if _, err := p.Create(t.Context(), named("attic", "second")); err != nil {
		t.Errorf("Create where the last endpoint is nobody's: %v", err)
	}
	inst, err := p.Get(t.Context(), id)
	if err != nil || inst.State != provider.StateRunning {
		t.Errorf("the first instance is %q, %v, want Running as before", inst.State, err)
	}
}
