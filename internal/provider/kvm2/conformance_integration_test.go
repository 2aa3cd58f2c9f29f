//go:build integration

package kvm2

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"
	"github.com/go-logr/logr"
	"golang.org/x/crypto/ssh"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/conformance"
)

// TestConformanceOnLibvirtd runs the contract's suite over the libvirtd and the sshd that KVM2_TEST_* name. The
// instances have a blank disk, so none boots.
func TestConformanceOnLibvirtd(t *testing.T) {
	it := newIntegration(t)
	it.useBlankImage(t)
	t.Cleanup(func() { it.removeImage(t) })
	image := it.entry.KVM2.Images["image"]
	image.Firmware = provider.FirmwareBIOS // it comes to its end at once, where UEFI goes on looking for a boot disk
	it.entry.KVM2.Images["image"] = image
	it.entry.KVM2.MachineTypes = map[string]provider.KVMMachineType{"small": {VCPUs: 1, MemoryMiB: 128, DiskSizeGb: 1}}
	conformance.Run(t, func(ctx context.Context, s conformance.Setup) (*conformance.Harness, error) {
		w := &realWorld{integration: it, t: t, log: s.Log}
		w.seam = newScripted(newSSHDialer(it.entry.KVM2, s.Log), s.Log)
		if err := w.connect(ctx); err != nil {
			return nil, err
		}
		return w.harness(), nil
	}, conformance.Title("kvm2 over libvirtd and sshd"))
}

// realWorld is a host, the providers over it, and a way to it beside them.
type realWorld struct {
	*integration
	t       *testing.T
	log     logr.Logger
	seam    *scripted
	built   []*Provider
	link    link
	eyes    conn             // the independent look
	hands   *libvirt.Libvirt // what somebody with virsh does
	planted []string
}

// connect makes connections that no provider knows of.
func (w *realWorld) connect(ctx context.Context) (err error) {
	if w.link, err = newSSHDialer(w.entry.KVM2, logr.Discard()).Dial(ctx, w.host); err != nil {
		return err
	}
	if w.eyes, err = w.link.Open(ctx); err != nil {
		return err
	}
	raw, err := w.link.(*sshLink).client.Dial("unix", w.host.Socket)
	if err != nil {
		return err
	}
	w.hands = libvirt.NewWithDialer(dialers.NewAlreadyConnected(raw))
	return w.hands.ConnectToURI(libvirt.QEMUSystem)
}

func (w *realWorld) harness() *conformance.Harness {
	const patience, few, everyFifth = time.Minute, 10, 5
	h := &conformance.Harness{
		Provider: w.build(conformance.Variation{}, w.seam), Name: w.entry.Name, Type: provider.TypeKVM2, Owner: w.request.Owner,
		Axes: Axes(), Zones: []string{w.host.Name}, Patience: patience, Many: few, Stride: everyFifth,
		Request: func() provider.CreateRequest {
			one := *w.integration
			one.renew()
			return one.request
		},
		Look: w.things, Faults: w.seam.script, Build: w.variation, Close: w.close,
		ElsewhereID: formatProviderID("elsewhere", "vm"),
		Hypervisor:  func(string) string { return w.host.Address },
		Connections: w.connections,
	}
	key, err := os.ReadFile(w.entry.KVM2.SSHKeyFile)
	if err != nil {
		w.t.Fatalf("the SSH key: %v", err)
	}
	h.Credentials = []string{string(key)}
	w.control(h)
	return h
}

func (w *realWorld) build(v conformance.Variation, d dialer) *Provider {
	opts := provider.Options{Owner: w.request.Owner, Log: w.log}
	if v.Owner != "" {
		opts.Owner = v.Owner
	}
	p := newProvider(w.entry, opts, d)
	w.built = append(w.built, p)
	return p
}

// variation builds another provider; one whose way in is spoilt has files of its own.
func (w *realWorld) variation(v conformance.Variation) (provider.Provider, error) {
	if v.Access == conformance.Granted {
		return w.build(v, w.seam), nil
	}
	config, dir := *w.entry.KVM2, w.t.TempDir()
	switch v.Access {
	case conformance.FileMissing:
		config.SSHKeyFile = filepath.Join(dir, "missing")
	case conformance.FileMalformed:
		config.SSHKeyFile = filepath.Join(dir, "malformed")
		if err := os.WriteFile(config.SSHKeyFile, []byte("no key"), 0o600); err != nil {
			return nil, err
		}
	case conformance.Refused:
		config.SSHKeyFile = filepath.Join(dir, "unknown")
		if err := os.WriteFile(config.SSHKeyFile, newClientKey().pem, 0o600); err != nil {
			return nil, err
		}
	case conformance.WrongPeer:
		config.KnownHostsFile = filepath.Join(dir, "known_hosts")
		line := w.host.Address + " " + string(ssh.MarshalAuthorizedKey(newClientKey().public))
		if err := os.WriteFile(config.KnownHostsFile, []byte(line), 0o600); err != nil {
			return nil, err
		}
	default:
		return nil, errors.ErrUnsupported
	}
	return w.build(v, newSSHDialer(&config, w.log)), nil
}

func (w *realWorld) connections() int {
	w.seam.mu.Lock()
	defer w.seam.mu.Unlock()
	n := 0
	for _, links := range w.seam.links {
		for _, l := range links {
			select {
			case <-l.Done():
			default:
				n++
			}
		}
	}
	return n
}

func (w *realWorld) close() {
	w.seam.script.Disarm()
	for _, p := range w.built {
		if err := p.Close(); err != nil {
			w.t.Errorf("close: %v", err)
		}
	}
	for _, name := range w.planted {
		w.vanish(name)
	}
	if err := w.hands.Disconnect(); err != nil {
		w.t.Errorf("disconnect: %v", err)
	}
	_ = w.link.Close() // and the look with it
}

// things is the independent look: domains and volumes as libvirtd has them.
func (w *realWorld) things(ctx context.Context) (out []conformance.Thing, err error) {
	domains, err := w.eyes.ConnectListAllDomains(ctx)
	if err != nil {
		return nil, err
	}
	for _, d := range domains {
		doc, err := w.eyes.DomainGetXMLDesc(ctx, d)
		if isLibvirtError(err, libvirt.ErrNoDomain) {
			continue // gone since
		}
		if err != nil {
			return nil, err
		}
		state, _, err := w.eyes.DomainGetState(ctx, d)
		if err != nil && !isLibvirtError(err, libvirt.ErrNoDomain) {
			return nil, err
		}
		out = append(out, thingOfDomain(w.host.Name, d.Name, doc, state == int32(libvirt.DomainRunning)))
	}
	p, err := w.eyes.StoragePoolLookupByName(ctx, w.host.Pool)
	if err != nil {
		return nil, err
	}
	// A console's log is made by virtlogd: the listing has it only after a refresh, whoever asks for that.
	if err := w.eyes.StoragePoolRefresh(ctx, p); err != nil && !isLibvirtError(err, libvirt.ErrOperationInvalid) {
		return nil, err // while an upload runs the pool refuses, and lists what it knows
	}
	volumes, err := w.eyes.StoragePoolListAllVolumes(ctx, p)
	for _, v := range volumes {
		out = append(out, thingOfVolume(w.host.Name, v.Name, v.Key))
	}
	return slices.DeleteFunc(out, func(one conformance.Thing) bool { return one.Name == "lost+found" }), err
}
