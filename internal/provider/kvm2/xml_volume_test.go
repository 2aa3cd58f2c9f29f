package kvm2

import (
	"encoding/xml"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// volumeDoc is a volume's XML, read without the library that wrote it.
type volumeDoc struct {
	Name       string `xml:"name"`
	Capacity   uint64 `xml:"capacity"`
	Allocation uint64 `xml:"allocation"`
	Format     struct {
		Type string `xml:"type,attr"`
	} `xml:"target>format"`
	Mode    string `xml:"target>permissions>mode"`
	Backing struct {
		Path   string `xml:"path"`
		Format struct {
			Type string `xml:"type,attr"`
		} `xml:"format"`
	} `xml:"backingStore"`
}

func parseVolumeDoc(t *testing.T, out string, err error) volumeDoc {
	t.Helper()
	if err != nil {
		t.Fatalf("volume XML: %v", err)
	}
	var doc volumeDoc
	if err := xml.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatalf("the XML does not parse: %v\n%s", err, out)
	}
	return doc
}

// Without a stated format libvirt records the base as raw, and the guest does not boot.
func TestVolumeXML_overlayBackingStore(t *testing.T) {
	for _, format := range []string{provider.FormatQCOW2, provider.FormatRaw} {
		t.Run(format, func(t *testing.T) {
			out, err := overlayVolumeXML("vm.qcow2", 10<<30, "/srv/vms & images/base", format)
			want := volumeDoc{Name: "vm.qcow2", Capacity: 10 << 30, Mode: "0600"}
			want.Format.Type = "qcow2"
			want.Backing.Path, want.Backing.Format.Type = "/srv/vms & images/base", format
			if diff := cmp.Diff(want, parseVolumeDoc(t, out, err)); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
}

func TestVolumeXML_overlayNeedsBaseAndFormat(t *testing.T) {
	for name, args := range map[string][2]string{"no path": {"", "qcow2"}, "no format": {"/p/base", ""}} {
		t.Run(name, func(t *testing.T) {
			if _, err := overlayVolumeXML("vm.qcow2", 1, args[0], args[1]); !errors.Is(err, provider.ErrPermanent) {
				t.Errorf("error is %v, want ErrPermanent", err)
			}
		})
	}
}

func TestVolumeXML_rawIsPrivateAndSparse(t *testing.T) {
	out, err := rawVolumeXML("vm-seed.iso", 51200, modePrivate)
	want := volumeDoc{Name: "vm-seed.iso", Capacity: 51200, Mode: "0600"}
	want.Format.Type = "raw"
	if diff := cmp.Diff(want, parseVolumeDoc(t, out, err)); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// Deleting vm-1 must never hit a volume of vm-10 or of vm-1-seed.
func TestVolumeNames_areOneInstancesAlone(t *testing.T) {
	names := map[string]string{}
	for _, vm := range []string{"vm-1", "vm-10", "vm-1-seed", "vm-1-backup", "vm"} {
		for _, volume := range []string{overlayName(vm), seedName(vm)} {
			if other, taken := names[volume]; taken {
				t.Errorf("%s and %s share the volume %s", vm, other, volume)
			}
			names[volume] = vm
		}
	}
}
