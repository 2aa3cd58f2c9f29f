package static

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/conformance"
)

const (
	entryName = "static-entry"
	ownerName = "owner-1"
)

// rig is a lease directory with an entry over it, and a script before its store.
type rig struct {
	root   string
	config provider.StaticConfig
	script *conformance.Script
}

// newRig makes a lease directory under dir for so many endpoints in each zone.
func newRig(dir string, perZone map[string]int, zones ...string) (*rig, error) {
	root, err := os.MkdirTemp(dir, "leases")
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(root, folderEndpoints), dirMode); err != nil {
		return nil, err
	}
	r := &rig{root: root, config: provider.StaticConfig{LeaseDirectory: root}}
	for i, zone := range zones {
		for n := range perZone[zone] {
			r.config.Endpoints = append(r.config.Endpoints, provider.StaticEndpoint{
				Name: fmt.Sprintf("%s-%d", zone, n), Zone: zone, Address: fmt.Sprintf("198.18.%d.%d", i, n%250+1), Port: 3128 + n/250,
			})
		}
	}
	denied := fmt.Errorf("script: %w", syscall.EACCES)
	r.script = &conformance.Script{Errors: map[conformance.FaultKind]error{
		conformance.Strange: errors.New("error 4711"), conformance.Denied: denied, conformance.Busy: syscall.EBUSY,
		conformance.Missing: errAbsent, conformance.Garbled: errUnreadable, conformance.Dropped: syscall.EIO,
		conformance.Late: context.DeadlineExceeded, conformance.Unreachable: syscall.ESTALE,
	}}
	return r, nil
}

// provider builds one over the lease directory, as the factory does, with the script in between. Endpoints are not
// dialled: nothing listens at documentation addresses.
func (r *rig) provider(config provider.StaticConfig, opts provider.Options) *Provider {
	inner := newLimited(quietDials{directory{r.root}}, config.Zones())
	return build(entryName, config, opts, scripted{inner, r.script})
}

// quietDials is a directory whose endpoints all answer.
type quietDials struct{ directory }

func (quietDials) Dial(ctx context.Context, _, _ string) error { return ctx.Err() }

// scripted takes every call of a store through a script.
type scripted struct {
	store
	script *conformance.Script
}

func (s scripted) through(ctx context.Context, zone, name string, kind conformance.CallKind, effect func() error) error {
	return s.script.Through(ctx, conformance.Call{Host: zone, Name: name, Kind: kind}, effect)
}

func (s scripted) Read(ctx context.Context, zone, file string) (content []byte, err error) {
	err = s.through(ctx, zone, "Read", conformance.Read, func() (err error) {
		content, err = s.store.Read(ctx, zone, file)
		return err
	})
	return content, err
}

func (s scripted) Claims(ctx context.Context, zone string) (names []string, err error) {
	err = s.through(ctx, zone, "Claims", conformance.Read, func() (err error) {
		names, err = s.store.Claims(ctx, zone)
		return err
	})
	return names, err
}

func (s scripted) Prepare(ctx context.Context, zone string) error {
	return s.through(ctx, zone, "Prepare", conformance.Change, func() error { return s.store.Prepare(ctx, zone) })
}

func (s scripted) Make(ctx context.Context, zone, file string, content []byte) error {
	return s.through(ctx, zone, "Make", conformance.Change, func() error { return s.store.Make(ctx, zone, file, content) })
}

func (s scripted) Link(ctx context.Context, zone, from, to string) error {
	return s.through(ctx, zone, "Link", conformance.Change, func() error { return s.store.Link(ctx, zone, from, to) })
}

func (s scripted) Replace(ctx context.Context, zone, file string, from, to []byte) error {
	return s.through(ctx, zone, "Replace", conformance.Change, func() error { return s.store.Replace(ctx, zone, file, from, to) })
}

func (s scripted) Remove(ctx context.Context, zone, file string, content []byte) error {
	return s.through(ctx, zone, "Remove", conformance.Change, func() error { return s.store.Remove(ctx, zone, file, content) })
}

func (s scripted) Writable(ctx context.Context, zone string) error {
	return s.through(ctx, zone, "Writable", conformance.Read, func() error { return s.store.Writable(ctx, zone) })
}

func (s scripted) Dial(ctx context.Context, zone, address string) error {
	return s.through(ctx, zone, "Dial", conformance.Read, func() error { return s.store.Dial(ctx, zone, address) })
}

// newHarness is the provider as the conformance suite tries it: over a real directory, two zones of endpoints.
func newHarness(dir string, s conformance.Setup) (*conformance.Harness, error) {
	zones := []string{"attic", "cellar"}
	r, err := newRig(dir, map[string]int{"attic": 230, "cellar": 40}, zones...)
	if err != nil {
		return nil, err
	}
	variant := func(v conformance.Variation) (provider.Provider, error) {
		if v.Access != conformance.Granted {
			return nil, errors.ErrUnsupported // there are no credentials
		}
		opts := provider.Options{Owner: ownerName, Log: s.Log}
		if v.Owner != "" {
			opts.Owner = v.Owner
		}
		if v.Log.GetSink() != nil {
			opts.Log = v.Log
		}
		config := r.config
		if v.Zones != nil {
			config.Endpoints = nil
			for _, zone := range v.Zones {
				config.Endpoints = append(config.Endpoints, r.config.In(zone)...)
			}
		}
		return r.provider(config, opts), nil
	}
	p, err := variant(conformance.Variation{})
	if err != nil {
		return nil, err
	}
	return &conformance.Harness{
		Provider: p, Name: entryName, Type: provider.TypeStatic, Owner: ownerName, Axes: Axes(), Zones: zones,
		Request: func() provider.CreateRequest { return requestIn("attic") },
		Look:    func(context.Context) ([]conformance.Thing, error) { return r.look() },
		Build:   variant, Faults: r.script, Plant: r.plant, SetMark: r.setMark,
		SpoilMark: func(_ context.Context, id string) error {
			return r.edit(id, func([]byte) ([]byte, error) { return []byte("{"), nil })
		},
		SetPower:       r.setPower,
		SetInterfaces:  r.setInterfaces,
		Remove:         func(_ context.Context, id string) error { return r.removeClaim(id) },
		RemoveResource: func(_ context.Context, id string) error { return os.Remove(r.path(mustParse(id).instanceFile())) },
		Fill:           r.fill,
		ElsewhereID:    place{zone: "elsewhere", name: "anything"}.id(),
		Close:          func() { _ = os.RemoveAll(r.root) },
	}, nil
}

func requestIn(zone string) provider.CreateRequest {
	const ref = "conformance/instance"
	uid := uuid.NewString()
	return provider.CreateRequest{
		Name: provider.InstanceName(ownerName, ref, uid), UID: uid, Owner: ownerName, Ref: ref, CloudInit: provider.Secret("#cloud-config\n"),
		Placement: provider.Placement{Zone: zone, MachineType: provider.StaticPlacement, Image: provider.StaticPlacement},
	}
}

func (r *rig) path(file string) string { return filepath.Join(r.root, file) }

func mustParse(id string) place {
	at, err := parseID(id)
	if err != nil {
		panic(err)
	}
	return at
}

// looked is a lease's file as the independent look reads it: JSON of its own, not the provider's types.
type looked struct {
	Lease, Zone, Name string
	Static            *struct {
		Managed         bool
		Owner, UID, Ref string
		CreatedAt       time.Time
	}
}

// each reads the files of a folder.
func (r *rig) each(folder string, visit func(file, content string, l looked)) error {
	entries, err := os.ReadDir(r.path(folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		content, err := os.ReadFile(r.path(folder + "/" + e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		var l looked
		_ = json.Unmarshal(content, &l) // a spoilt one names nobody
		visit(e.Name(), string(content), l)
	}
	return err
}

func (r *rig) look() ([]conformance.Thing, error) {
	var out []conformance.Thing
	links := map[string]string{}
	err := r.each("instances", func(file, _ string, l looked) {
		zone, name, _ := strings.Cut(strings.TrimSuffix(file, ".json"), "_")
		links[zone+"/"+name] = l.Lease
		out = append(out, conformance.Thing{Kind: conformance.Resource, Zone: zone, Name: file, Of: name})
	})
	if err != nil {
		return nil, err
	}
	err = r.each("endpoints", func(file, content string, l looked) {
		thing := conformance.Thing{Kind: conformance.Instance, Zone: l.Zone, Name: l.Name, Content: file + "\n" + content}
		thing.Running = l.Lease != "" && links[l.Zone+"/"+l.Name] == l.Lease
		if m := l.Static; m != nil && m.Managed {
			thing.Mark = &conformance.Mark{Owner: m.Owner, UID: m.UID, Ref: m.Ref, CreatedAt: m.CreatedAt}
		}
		out = append(out, thing)
	})
	return out, err
}

// claim gives the file of the endpoint that an instance has.
func (r *rig) claim(id string) (file string, err error) {
	at := mustParse(id)
	err = r.each("endpoints", func(name, content string, l looked) {
		spoilt := content == "{" && file == ""
		if (l.Zone == at.zone && l.Name == at.name) || spoilt {
			file = r.path("endpoints/" + name)
		}
	})
	if file == "" && err == nil {
		err = errAbsent
	}
	return file, err
}

func (r *rig) removeClaim(id string) error {
	file, err := r.claim(id)
	if err != nil {
		return err
	}
	return os.Remove(file)
}

// edit replaces an endpoint's lease, as an editor does: the instance's name keeps the old file.
func (r *rig) edit(id string, change func([]byte) ([]byte, error)) error {
	file, err := r.claim(id)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if content, err = change(content); err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

func (r *rig) setMark(_ context.Context, id string, m *conformance.Mark) error {
	at := mustParse(id)
	return r.edit(id, func(content []byte) ([]byte, error) {
		var l lease
		if err := json.Unmarshal(content, &l); err != nil { // spoilt: the second name has what it was
			whole, err := os.ReadFile(r.path(at.instanceFile()))
			if err != nil {
				return nil, err
			}
			if err := json.Unmarshal(whole, &l); err != nil {
				return nil, err
			}
		}
		l.Mark = markOf(m)
		return l.encode()
	})
}

func markOf(m *conformance.Mark) *mark {
	if m == nil {
		return nil
	}
	return &mark{Managed: true, Owner: m.Owner, UID: m.UID, Ref: m.Ref, CreatedAt: m.CreatedAt}
}

func (r *rig) plant(ctx context.Context, p conformance.Planted) (string, error) {
	d := directory{r.root}
	if err := d.Prepare(ctx, p.Zone); err != nil {
		return "", err
	}
	for _, e := range r.config.In(p.Zone) {
		file := r.path(claimFile(e.Address, e.Port))
		if _, err := os.Stat(file); err == nil {
			continue
		}
		at := place{zone: p.Zone, name: p.Name}
		l := lease{Token: uuid.NewString(), Zone: p.Zone, Name: p.Name, Endpoint: e.Name, Address: e.Address, Port: e.Port, Mark: markOf(p.Mark)}
		content, err := l.encode()
		if err != nil {
			return "", err
		}
		if err := d.Make(ctx, p.Zone, claimFile(e.Address, e.Port), content); err != nil {
			return "", err
		}
		return at.id(), os.Link(file, r.path(at.instanceFile()))
	}
	return "", errors.New("there is no free endpoint to plant on")
}

// setPower takes an instance's second name away: it does not hold its endpoint then. There is no other state.
func (r *rig) setPower(_ context.Context, id string, power conformance.Power) error {
	if power != conformance.Off {
		return errors.ErrUnsupported
	}
	return os.Remove(r.path(mustParse(id).instanceFile()))
}

// setInterfaces edits the address in a lease, which has one.
func (r *rig) setInterfaces(_ context.Context, id string, interfaces ...conformance.Interface) error {
	address := ""
	for _, i := range interfaces {
		if i.MAC != "" || len(i.Addresses) > 1 {
			return errors.ErrUnsupported
		}
		address = strings.Join(i.Addresses, "")
	}
	return r.edit(id, func(content []byte) ([]byte, error) {
		var l lease
		if err := json.Unmarshal(content, &l); err != nil {
			return nil, err
		}
		l.Address = address
		return l.encode()
	})
}

// fill leases every endpoint of a zone to somebody else.
func (r *rig) fill(ctx context.Context, zone string) error {
	for {
		uid := uuid.NewString()
		_, err := r.plant(ctx, conformance.Planted{Zone: zone, Name: "other-" + uid[:8], Mark: &conformance.Mark{Owner: "another", UID: uid, Ref: "a/b"}})
		if err != nil {
			return nil //nolint:nilerr // there is no free one
		}
	}
}
