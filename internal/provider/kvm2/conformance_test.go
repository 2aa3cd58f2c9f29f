package kvm2

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"libvirt.org/go/libvirtxml"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/conformance"
)

// TestConformance runs the contract's suite over the scripted libvirt.
func TestConformance(t *testing.T) {
	conformance.Run(t, func(_ context.Context, s conformance.Setup) (*conformance.Harness, error) {
		return newScriptedWorld(t, s).harness(), nil
	}, conformance.Title("kvm2 over its scripted backend"))
}

// goodImage is where the mirror has the image that the hosts have already.
const goodImage = "/egress.qcow2"

// urlSecret is the signature in the URL of an image.
const urlSecret = "S3NTINEL-signature-of-an-image"

// scriptedWorld is two scripted hosts, and the providers over them.
type scriptedWorld struct {
	t      *testing.T
	hosts  []*fakeHost
	dialer *fakeDialer
	seam   *scripted
	entry  provider.Entry
	log    logr.Logger
	built  []*Provider
	mirror *httptest.Server
}

func newScriptedWorld(t *testing.T, s conformance.Setup) *scriptedWorld {
	t.Helper()
	w := &scriptedWorld{t: t, log: s.Log}
	for _, name := range []string{"beelink", "nuc"} {
		h := newFakeHost(name)
		cacheTestImage(t, h)
		w.hosts = append(w.hosts, h)
	}
	w.mirror = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		content := qcow2Bytes(64 << 10)
		if r.URL.Path != goodImage {
			content = []byte("<html>no image</html>")
		}
		rw.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = rw.Write(content) // the client may have left
	}))
	w.dialer = newFakeDialer(w.hosts...)
	w.seam = newScripted(w.dialer, s.Log)
	w.entry = testConfig(t, w.hosts...)
	good, bad := testImage(t), testImage(t)
	good.URL = w.mirror.URL + goodImage + "?signature=" + urlSecret
	bad.URL, bad.SHA256 = w.mirror.URL+"/bad.qcow2?signature="+urlSecret, hexSum([]byte("another image"))
	w.entry.KVM2.Images["egress"], w.entry.KVM2.Images["bad"] = good, bad
	return w
}

func (w *scriptedWorld) harness() *conformance.Harness {
	zones := []string{"beelink", "nuc"}
	const patience = 20 * time.Second
	h := &conformance.Harness{
		Provider: w.build(conformance.Variation{}), Name: testEntry, Type: provider.TypeKVM2, Owner: testOwner, Axes: Axes(), Zones: zones,
		Request: func() provider.CreateRequest {
			uid := uuid.New().String()
			return testRequest(func(r *provider.CreateRequest) {
				r.UID, r.Name = uid, provider.InstanceName(testOwner, r.Ref, uid)
			})
		},
		Look: w.look, Faults: w.seam.script, Patience: patience, Close: w.close,
		Build: func(v conformance.Variation) (provider.Provider, error) {
			if v.Access != conformance.Granted {
				return nil, errors.ErrUnsupported // there is no SSH here; over real sshd there is
			}
			return w.build(v), nil
		},
		BadImage: "bad", URLSecrets: []string{urlSecret}, ElsewhereID: formatProviderID("elsewhere", testName),
		Connections: func() int {
			n := w.dialer.openLinks()
			for _, h := range w.hosts {
				n += h.open()
			}
			return n
		},
		Hypervisor: func(zone string) string { return zone + ".example.net" },
	}
	w.control(h)
	return h
}

func (w *scriptedWorld) build(v conformance.Variation) *Provider {
	entry, opts := w.entry, provider.Options{Owner: testOwner, Log: w.log}
	if v.Owner != "" {
		opts.Owner = v.Owner
	}
	if v.Log.GetSink() != nil {
		opts.Log = v.Log
	}
	if v.Zones != nil {
		config := *entry.KVM2
		config.Hosts = slices.DeleteFunc(slices.Clone(config.Hosts), func(h provider.KVMHost) bool { return !slices.Contains(v.Zones, h.Name) })
		entry.KVM2 = &config
	}
	p := newProvider(entry, opts, w.seam)
	w.built = append(w.built, p)
	return p
}

func (w *scriptedWorld) close() {
	w.seam.script.Disarm()
	for _, p := range w.built {
		if err := p.Close(); err != nil {
			w.t.Errorf("close: %v", err)
		}
	}
	w.mirror.Close()
}

// look is the independent look.
func (w *scriptedWorld) look(context.Context) ([]conformance.Thing, error) {
	var out []conformance.Thing
	for _, h := range w.hosts {
		h.mu.Lock()
		for _, d := range h.domains {
			doc, err := d.describe()
			if err != nil {
				doc = "unreadable"
			}
			out = append(out, thingOfDomain(h.name, d.name, doc, d.active() && d.state == fakeRunning))
		}
		for _, p := range h.pools {
			for _, v := range p.volumes {
				out = append(out, thingOfVolume(h.name, v.name, v.mtime.Format(time.RFC3339Nano)))
			}
		}
		h.mu.Unlock()
	}
	return out, nil
}

// errFakeAbsent: the suite asked for something that is gone.
var errFakeAbsent = errors.New("fake: no such domain")

// on changes the domain of an ID.
func (w *scriptedWorld) on(id string, change func(h *fakeHost, d *fakeDomain)) error {
	zone, name, err := parseProviderID(id)
	if err != nil {
		return err
	}
	h := w.host(zone)
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.byName(name)
	if d == nil {
		return errFakeAbsent
	}
	change(h, d)
	return nil
}

func (w *scriptedWorld) host(zone string) *fakeHost {
	return w.hosts[slices.IndexFunc(w.hosts, func(h *fakeHost) bool { return h.name == zone })]
}

// metadataOf writes a mark as the provider does.
func (w *scriptedWorld) metadataOf(m *conformance.Mark) *libvirtxml.DomainMetadata {
	if m == nil {
		return nil
	}
	text, err := mark{Managed: true, UID: m.UID, Owner: m.Owner, Ref: m.Ref, CreatedAt: m.CreatedAt}.format()
	if err != nil {
		w.t.Errorf("format a mark: %v", err)
	}
	return &libvirtxml.DomainMetadata{XML: text}
}
