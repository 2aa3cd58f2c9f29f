package kvm2

import (
	"context"
	"encoding/xml"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"libvirt.org/go/libvirtxml"
)

// virDomainState, as the fake needs it.
const (
	fakeRunning = int32(libvirt.DomainRunning)
	fakePaused  = int32(libvirt.DomainPaused)
	fakeShutoff = int32(libvirt.DomainShutoff)
	fakeCrashed = int32(libvirt.DomainCrashed)
)

// fakeDomain is one domain. config is nil while it is transient, live is nil while it is not active.
type fakeDomain struct {
	name          string
	uuid          [16]byte
	id            int32
	state, reason int32
	autostart     bool
	config, live  *libvirtxml.Domain

	nvram, managedSave, snapshots, checkpoints bool

	// agentConnected says whether a guest agent has opened its channel.
	agentConnected    bool
	agent, arp        []guestInterface
	agentErr, arpErr  error
	ga                fakeAgent
	unreadable        error  // answer of DomainGetXMLDesc
	rawXML            string // answer of DomainGetXMLDesc, as it is
	starts, destroyed int
}

func (d *fakeDomain) active() bool { return d.live != nil }

func (d *fakeDomain) ref() domain {
	id := int32(-1)
	if d.active() {
		id = d.id
	}
	return domain{Name: d.name, UUID: d.uuid, ID: id}
}

// domainNames gives the names of all domains, sorted.
func (h *fakeHost) domainNames() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var names []string
	for _, d := range h.domains {
		names = append(names, d.name)
	}
	slices.Sort(names)
	return names
}

// withDomain lets a test look at or change a domain. It panics when there is none: a broken test.
func (h *fakeHost) withDomain(name string, use func(d *fakeDomain)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.byName(name)
	if d == nil {
		panic("fake: no domain " + name)
	}
	use(d)
}

// addDomain defines a domain from XML, as somebody with virsh would, and starts it if asked to.
func (h *fakeHost) addDomain(doc string, start bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, err := h.define(doc)
	if err == nil && start {
		err = h.start(d)
	}
	if err != nil {
		panic("fake: " + err.Error())
	}
}

// removeDomain takes a domain away whatever it does, as somebody with virsh would.
func (h *fakeHost) removeDomain(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.domains = slices.DeleteFunc(h.domains, func(d *fakeDomain) bool { return d.name == name })
}

func (h *fakeHost) byName(name string) *fakeDomain {
	for _, d := range h.domains {
		if d.name == name {
			return d
		}
	}
	return nil
}

// byRef finds a domain as libvirt does: by UUID.
func (h *fakeHost) byRef(ref domain) (*fakeDomain, error) {
	for _, d := range h.domains {
		if d.uuid == ref.UUID {
			return d, nil
		}
	}
	return nil, virErr(libvirt.ErrNoDomain, fmt.Sprintf("Domain not found: no domain with matching uuid '%s' (%s)", uuid.UUID(ref.UUID), ref.Name))
}

func (h *fakeHost) define(doc string) (*fakeDomain, error) {
	config := &libvirtxml.Domain{}
	if err := config.Unmarshal(doc); err != nil {
		return nil, virErr(libvirt.ErrXMLDetail, "(domain_definition): "+err.Error())
	}
	if config.Name == "" || strings.Contains(config.Name, "/") {
		return nil, virErr(libvirt.ErrXMLError, "XML error: name "+config.Name)
	}
	if !strings.Contains(h.capabilities, "<domain type='"+config.Type+"'/>") {
		return nil, virErr(libvirt.ErrConfigUnsupported, "unsupported configuration: Emulator does not support virt type '"+config.Type+"'")
	}
	id := uuid.New()
	if config.UUID != "" {
		parsed, err := uuid.Parse(config.UUID)
		if err != nil {
			return nil, virErr(libvirt.ErrInternalError, "internal error: malformed uuid element")
		}
		id = parsed
	}
	config.UUID, config.ID = id.String(), nil
	config.Metadata = keptMetadata(config.Metadata)
	for _, d := range h.domains {
		if d.name == config.Name && d.uuid != id {
			return nil, virErr(libvirt.ErrOperationFailed, fmt.Sprintf("operation failed: domain '%s' already exists with uuid %s", d.name, uuid.UUID(d.uuid)))
		}
		if d.uuid == id && d.name != config.Name {
			return nil, virErr(libvirt.ErrOperationFailed, fmt.Sprintf("operation failed: domain '%s' is already defined with uuid %s", d.name, id))
		}
		if d.uuid == id {
			// Equal name and UUID: redefined without a word. A running one keeps what it runs with.
			d.config = config
			return d, nil
		}
	}
	d := &fakeDomain{name: config.Name, uuid: id, id: -1, state: fakeShutoff, config: config}
	d.nvram = config.OS != nil && config.OS.Firmware == "efi"
	h.domains = append(h.domains, d)
	return d, nil
}

// keptMetadata drops what libvirt drops in silence: elements without a namespace, and a second
// element of a namespace.
func keptMetadata(in *libvirtxml.DomainMetadata) *libvirtxml.DomainMetadata {
	if in == nil {
		return nil
	}
	dec := xml.NewDecoder(strings.NewReader("<metadata>" + in.XML + "</metadata>"))
	var kept strings.Builder
	seen := map[string]bool{}
	depth, from, keep := 0, int64(0), false
	for {
		before := dec.InputOffset()
		token, err := dec.Token()
		if err != nil {
			break
		}
		switch t := token.(type) {
		case xml.StartElement:
			if depth++; depth == 2 {
				from, keep = before, t.Name.Space != "" && !seen[t.Name.Space]
				seen[t.Name.Space] = true
			}
		case xml.EndElement:
			if depth--; depth == 1 && keep {
				kept.WriteString(("<metadata>" + in.XML)[from:dec.InputOffset()])
			}
		}
	}
	if kept.Len() == 0 {
		return nil
	}
	return &libvirtxml.DomainMetadata{XML: kept.String()}
}

func (h *fakeHost) start(d *fakeDomain) error {
	if d.active() {
		return virErr(libvirt.ErrOperationInvalid, "Requested operation is not valid: domain is already running")
	}
	for _, path := range diskSources(d.config) {
		if !h.fileExists(path) {
			return virErr(libvirt.ErrSystemError, "Cannot access storage file '"+path+"': No such file or directory")
		}
	}
	h.openConsoleLog(d.config)
	live := *d.config
	d.live, d.id, d.state, d.reason = &live, h.nextID, fakeRunning, int32(libvirt.DomainRunningBooted)
	h.nextID++
	d.starts++
	return nil
}

// diskSources gives the files of a definition's disks.
func diskSources(config *libvirtxml.Domain) []string {
	var paths []string
	if config == nil || config.Devices == nil {
		return nil
	}
	for _, disk := range config.Devices.Disks {
		if disk.Source != nil && disk.Source.File != nil {
			paths = append(paths, disk.Source.File.File)
		}
	}
	return paths
}

// describe is what DomainGetXMLDesc answers: the live definition of an active domain, with its id and
// the state of the agent's channel; the stored one otherwise.
func (d *fakeDomain) describe() (string, error) {
	if d.unreadable != nil {
		return "", d.unreadable
	}
	if d.rawXML != "" {
		return d.rawXML, nil
	}
	source := d.config
	if d.active() {
		source = d.live
	}
	plain, err := source.Marshal()
	if err != nil {
		return "", err
	}
	doc := &libvirtxml.Domain{}
	if err := doc.Unmarshal(plain); err != nil {
		return "", err
	}
	if d.active() {
		id := int(d.id)
		doc.ID = &id
		if doc.Devices != nil {
			for _, channel := range doc.Devices.Channels {
				if channel.Target == nil || channel.Target.VirtIO == nil {
					continue
				}
				channel.Target.VirtIO.State = "disconnected"
				if d.agentConnected {
					channel.Target.VirtIO.State = "connected"
				}
			}
		}
	}
	return doc.Marshal()
}

func (c *fakeConn) ConnectListAllDomains(ctx context.Context) ([]domain, error) {
	return fakeRPC(ctx, c, "ConnectListAllDomains", "", func(h *fakeHost) ([]domain, error) {
		var out []domain
		for _, d := range h.domains {
			out = append(out, d.ref())
		}
		return out, nil
	})
}

func (c *fakeConn) DomainLookupByName(ctx context.Context, name string) (domain, error) {
	return fakeRPC(ctx, c, "DomainLookupByName", name, func(h *fakeHost) (domain, error) {
		d := h.byName(name)
		if d == nil {
			return domain{}, virErr(libvirt.ErrNoDomain, "Domain not found: no domain with matching name '"+name+"'")
		}
		return d.ref(), nil
	})
}

func (c *fakeConn) DomainDefineXML(ctx context.Context, doc string) (domain, error) {
	return fakeRPC(ctx, c, "DomainDefineXML", xmlName(doc), func(h *fakeHost) (domain, error) {
		d, err := h.define(doc)
		if err != nil {
			return domain{}, err
		}
		return d.ref(), nil
	})
}

// onDomain is a call about one existing domain that gives nothing back.
func (c *fakeConn) onDomain(ctx context.Context, method string, ref domain, effect func(h *fakeHost, d *fakeDomain) error) error {
	_, err := fakeRPC(ctx, c, method, ref.Name, func(h *fakeHost) (done0, error) {
		d, err := h.byRef(ref)
		if err != nil {
			return done0{}, err
		}
		return done0{}, effect(h, d)
	})
	return err
}

func (c *fakeConn) DomainCreate(ctx context.Context, ref domain) error {
	return c.onDomain(ctx, "DomainCreate", ref, func(h *fakeHost, d *fakeDomain) error { return h.start(d) })
}

func (c *fakeConn) DomainDestroy(ctx context.Context, ref domain) error {
	return c.onDomain(ctx, "DomainDestroy", ref, func(h *fakeHost, d *fakeDomain) error {
		if !d.active() {
			return virErr(libvirt.ErrOperationInvalid, "Requested operation is not valid: domain is not running")
		}
		d.destroyed++
		d.live, d.id, d.state, d.reason = nil, -1, fakeShutoff, int32(libvirt.DomainShutoffDestroyed)
		if d.config == nil {
			h.domains = slices.DeleteFunc(h.domains, func(other *fakeDomain) bool { return other == d })
		}
		return nil
	})
}

func (c *fakeConn) DomainUndefineFlags(ctx context.Context, ref domain, flags uint32) error {
	return c.onDomain(ctx, "DomainUndefineFlags", ref, func(h *fakeHost, d *fakeDomain) error {
		has := func(flag libvirt.DomainUndefineFlagsValues) bool { return flags&uint32(flag) != 0 }
		invalid := func(why string) error {
			return virErr(libvirt.ErrOperationInvalid, "Requested operation is not valid: "+why)
		}
		switch {
		case flags&h.rejectFlags != 0:
			return virErr(libvirt.ErrInvalidArg, fmt.Sprintf("unsupported flags (0x%x) in function qemuDomainUndefineFlags", flags&h.rejectFlags))
		case d.config == nil:
			return invalid("cannot undefine transient domain")
		case d.snapshots && !has(libvirt.DomainUndefineSnapshotsMetadata):
			return invalid("cannot delete inactive domain with 1 snapshots")
		case d.checkpoints && !has(libvirt.DomainUndefineCheckpointsMetadata):
			return invalid("cannot delete inactive domain with 1 checkpoints")
		case d.managedSave && !has(libvirt.DomainUndefineManagedSave):
			return invalid("Refusing to undefine while domain managed save image exists")
		case d.nvram && !has(libvirt.DomainUndefineNvram):
			return invalid("cannot undefine domain with nvram")
		}
		d.config, d.autostart = nil, false
		if !d.active() {
			h.domains = slices.DeleteFunc(h.domains, func(other *fakeDomain) bool { return other == d })
		}
		return nil
	})
}

func (c *fakeConn) DomainSetAutostart(ctx context.Context, ref domain, on bool) error {
	return c.onDomain(ctx, "DomainSetAutostart", ref, func(_ *fakeHost, d *fakeDomain) error {
		if d.config == nil {
			return virErr(libvirt.ErrOperationInvalid, "Requested operation is not valid: cannot set autostart for transient domain")
		}
		d.autostart = on
		return nil
	})
}

func (c *fakeConn) DomainGetState(ctx context.Context, ref domain) (state, reason int32, err error) {
	pair, err := fakeRPC(ctx, c, "DomainGetState", ref.Name, func(h *fakeHost) ([2]int32, error) {
		d, err := h.byRef(ref)
		if err != nil {
			return [2]int32{}, err
		}
		return [2]int32{d.state, d.reason}, nil
	})
	return pair[0], pair[1], err
}

func (c *fakeConn) DomainGetXMLDesc(ctx context.Context, ref domain) (string, error) {
	return fakeRPC(ctx, c, "DomainGetXMLDesc", ref.Name, func(h *fakeHost) (string, error) {
		d, err := h.byRef(ref)
		if err != nil {
			return "", err
		}
		return d.describe()
	})
}

func (c *fakeConn) DomainInterfaceAddresses(ctx context.Context, ref domain, source addressSource) ([]guestInterface, error) {
	arg := ref.Name + " arp"
	if source == sourceAgent {
		arg = ref.Name + " agent"
	}
	return fakeRPC(ctx, c, "DomainInterfaceAddresses", arg, func(h *fakeHost) ([]guestInterface, error) {
		d, err := h.byRef(ref)
		switch {
		case err != nil:
			return nil, err
		case !d.active():
			return nil, virErr(libvirt.ErrOperationInvalid, "Requested operation is not valid: domain is not running")
		case source == sourceARP:
			return d.arp, d.arpErr
		case !d.agentConnected:
			return nil, virErr(libvirt.ErrAgentUnresponsive, "Guest agent is not responding: QEMU guest agent is not connected")
		}
		return d.agent, d.agentErr
	})
}

// xmlName gives the name element of a domain or volume document, for the record of calls.
func xmlName(doc string) string {
	var named struct {
		Name string `xml:"name"`
	}
	if err := xml.Unmarshal([]byte(doc), &named); err != nil {
		return ""
	}
	return named.Name
}

// fakeConsole is what a guest writes to its serial port when it starts.
const fakeConsole = "BdsDxe: failed to load Boot0001\n"

// openConsoleLog is virtlogd, which makes the file of a serial port's log without libvirt's storage
// driver, or goes on in it.
func (h *fakeHost) openConsoleLog(config *libvirtxml.Domain) {
	if config.Devices == nil || len(config.Devices.Serials) == 0 || config.Devices.Serials[0].Log == nil {
		return
	}
	dir, name := path.Split(config.Devices.Serials[0].Log.File)
	for _, p := range h.pools {
		if p.path+"/" != dir {
			continue
		}
		v := p.file(name)
		if v == nil {
			v = &fakeVolume{name: name, format: "raw", mode: "0600", mtime: fakeNow(), unlisted: true}
			p.volumes = append(p.volumes, v)
		}
		v.content = append(v.content, fakeConsole...)
	}
}
