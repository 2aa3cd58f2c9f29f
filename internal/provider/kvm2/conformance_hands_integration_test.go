//go:build integration

package kvm2

import (
	"context"
	"errors"
	"strings"

	"github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/conformance"
)

// control gives a harness what somebody with virsh does.
func (w *realWorld) control(h *conformance.Harness) {
	h.Plant = w.plant
	h.SetMark = func(_ context.Context, id string, m *conformance.Mark) error {
		text := ""
		if m != nil {
			formatted, err := mark{Managed: true, UID: m.UID, Owner: m.Owner, Ref: m.Ref, CreatedAt: m.CreatedAt}.format()
			if err != nil {
				return err
			}
			// libvirt puts prefix and namespace in front itself.
			text = strings.NewReplacer(" xmlns:kvm2=\""+markNamespace+"\"", "", "kvm2:", "").Replace(formatted)
		}
		return w.setMetadata(id, text)
	}
	h.SetPower = func(_ context.Context, id string, p conformance.Power) error {
		dom, err := w.find(id)
		if err != nil {
			return err
		}
		switch p {
		case conformance.Off:
			return w.hands.DomainDestroy(dom)
		case conformance.Paused:
			return w.hands.DomainSuspend(dom)
		default:
			return errors.ErrUnsupported
		}
	}
	h.Remove = func(_ context.Context, id string) error {
		if _, err := w.find(id); err != nil {
			return err
		}
		w.undefine(nameOf(id))
		return nil
	}
	h.RemoveResource = func(_ context.Context, id string) error {
		vol, err := w.volume(nameOf(id) + ".qcow2")
		if err != nil {
			return err
		}
		return w.hands.StorageVolDelete(vol, 0)
	}
}

func nameOf(id string) string { return id[strings.LastIndexByte(id, '/')+1:] }

func (w *realWorld) find(id string) (libvirt.Domain, error) {
	return w.hands.DomainLookupByName(nameOf(id))
}

func (w *realWorld) volume(name string) (libvirt.StorageVol, error) {
	p, err := w.hands.StoragePoolLookupByName(w.host.Pool)
	if err != nil {
		return libvirt.StorageVol{}, err
	}
	return w.hands.StorageVolLookupByName(p, name)
}

// setMetadata replaces the mark in what runs and in what is stored; an empty text takes it away.
func (w *realWorld) setMetadata(id, text string) error {
	dom, err := w.find(id)
	if err != nil {
		return err
	}
	state, _, err := w.hands.DomainGetState(dom, 0)
	if err != nil {
		return err
	}
	flags := libvirt.DomainAffectConfig
	if state != int32(libvirt.DomainShutoff) {
		flags |= libvirt.DomainAffectLive
	}
	var metadata libvirt.OptString
	if text != "" {
		metadata = libvirt.OptString{text}
	}
	const element = int32(libvirt.DomainMetadataElement)
	return w.hands.DomainSetMetadata(dom, element, metadata, libvirt.OptString{markPrefix}, libvirt.OptString{markNamespace}, flags)
}

// undefine takes a domain away, and nothing else.
func (w *realWorld) undefine(name string) {
	dom, err := w.hands.DomainLookupByName(name)
	if err != nil {
		return // it is gone
	}
	_ = w.hands.DomainDestroy(dom) // it may be off
	if err := w.hands.DomainUndefineFlags(dom, libvirt.DomainUndefineNvram); err != nil && !isLibvirtError(err, libvirt.ErrNoDomain) {
		w.t.Errorf("undefine %s: %v", name, err)
	}
}

// vanish takes a planted domain and its volumes away.
func (w *realWorld) vanish(name string) {
	w.undefine(name)
	for _, volume := range []string{name + ".qcow2", name + "-seed.iso"} {
		if vol, err := w.volume(volume); err == nil {
			if err := w.hands.StorageVolDelete(vol, 0); err != nil {
				w.t.Errorf("remove the volume %s: %v", volume, err)
			}
		}
	}
}

// plant defines a domain that is off, with volumes of its own.
func (w *realWorld) plant(_ context.Context, p conformance.Planted) (string, error) {
	w.planted = append(w.planted, p.Name)
	pool, err := w.hands.StoragePoolLookupByName(w.host.Pool)
	if err != nil {
		return "", err
	}
	for _, volume := range []string{p.Name + ".qcow2", p.Name + "-seed.iso"} {
		doc := "<volume><name>" + volume + "</name><capacity unit='KiB'>64</capacity></volume>"
		if _, err := w.hands.StorageVolCreateXML(pool, doc, 0); err != nil {
			return "", err
		}
	}
	metadata := ""
	if p.Mark != nil {
		if metadata, err = (mark{Managed: true, UID: p.Mark.UID, Owner: p.Mark.Owner, Ref: p.Mark.Ref, CreatedAt: p.Mark.CreatedAt}).format(); err != nil {
			return "", err
		}
	}
	doc := "<domain type='qemu'><name>" + p.Name + "</name><uuid>" + p.UID + "</uuid><metadata>" + metadata + "</metadata>" +
		"<memory unit='MiB'>64</memory><vcpu>1</vcpu><os><type arch='x86_64'>hvm</type></os></domain>"
	if _, err := w.hands.DomainDefineXML(doc); err != nil {
		return "", err
	}
	return formatProviderID(p.Zone, p.Name), nil
}
