package kvm2

import (
	"context"
	"slices"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/conformance"
)

// control gives a harness what somebody with virsh could do.
func (w *scriptedWorld) control(h *conformance.Harness) {
	h.Plant = w.plant
	h.SetMark = func(_ context.Context, id string, m *conformance.Mark) error {
		return w.on(id, func(_ *fakeHost, d *fakeDomain) {
			d.rawXML, d.config.Metadata = "", w.metadataOf(m)
			if d.live != nil {
				d.live.Metadata = d.config.Metadata
			}
		})
	}
	h.SpoilMark = func(_ context.Context, id string) error {
		return w.on(id, func(_ *fakeHost, d *fakeDomain) { d.rawXML = "<domain><metadata><kvm2:instance" })
	}
	h.SetPower = func(_ context.Context, id string, p conformance.Power) error {
		const unknownState = 77
		return w.on(id, func(_ *fakeHost, d *fakeDomain) {
			switch p {
			case conformance.On:
				d.state = fakeRunning
			case conformance.Off:
				d.live, d.id, d.state = nil, -1, fakeShutoff
			case conformance.Paused:
				d.state = fakePaused
			case conformance.Crashed:
				d.state = fakeCrashed
			case conformance.Odd:
				d.state = unknownState
			}
		})
	}
	h.SetInterfaces = func(_ context.Context, id string, interfaces ...conformance.Interface) error {
		return w.on(id, func(_ *fakeHost, d *fakeDomain) {
			d.agentConnected, d.agent = true, nil
			for _, i := range interfaces {
				hardware := i.MAC
				if hardware == "" {
					hardware = d.config.Devices.Interfaces[0].MAC.Address
				}
				d.agent = append(d.agent, guestInterface{Name: "eth0", MAC: hardware, Addrs: i.Addresses})
			}
		})
	}
	h.Remove = func(_ context.Context, id string) error {
		return w.on(id, func(h *fakeHost, d *fakeDomain) {
			h.domains = slices.DeleteFunc(h.domains, func(other *fakeDomain) bool { return other == d })
		})
	}
	h.RemoveResource = func(_ context.Context, id string) error {
		zone, name, err := parseProviderID(id)
		if err != nil {
			return err
		}
		w.host(zone).withPool(testPool, func(p *fakePool) {
			p.volumes = slices.DeleteFunc(p.volumes, func(v *fakeVolume) bool { return v.name == name+".qcow2" })
		})
		return nil
	}
	h.Fill = func(_ context.Context, zone string) error {
		w.host(zone).withPool(testPool, func(p *fakePool) { p.used += p.available() })
		return nil
	}
}

// plant defines and starts a domain with volumes of its own, as somebody with virsh would.
func (w *scriptedWorld) plant(_ context.Context, p conformance.Planted) (string, error) {
	h := w.host(p.Zone)
	var metadata string
	if m := w.metadataOf(p.Mark); m != nil {
		metadata = m.XML
	}
	for _, volume := range []string{p.Name + ".qcow2", p.Name + "-seed.iso"} {
		h.addVolume(testPool, volume, []byte("not ours"))
	}
	h.addDomain(fakeDomainXML(p.Name, strings.ToLower(p.UID), metadata, "/srv/vms/images/"+p.Name+".qcow2"), true)
	return formatProviderID(p.Zone, p.Name), nil
}
