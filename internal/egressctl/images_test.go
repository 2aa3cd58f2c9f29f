package egressctl_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/fake"
)

// keeper has images by zone, and errors for some of their names.
type keeper struct {
	*fake.Provider
	images map[string][]provider.BaseImage
	errs   map[string]error
	// removed has what was removed, as zone/name.
	removed *[]string
}

func (k keeper) Images(_ context.Context, zone string) ([]provider.BaseImage, error) {
	return k.images[zone], k.errs[zone]
}

func (k keeper) RemoveImage(_ context.Context, zone, name string) error {
	if err := k.errs[name]; err != nil {
		return err
	}
	*k.removed = append(*k.removed, zone+"/"+name)
	return nil
}

// imageDesk has a host with one image of each kind, and a second host that errs may fail.
func imageDesk(t *testing.T, errs map[string]error) (d *desk, removed *[]string) {
	t.Helper()
	d, removed = newDesk(t, "beelink", "cedar"), new([]string)
	image := func(name string, state provider.ImageState, users ...string) provider.BaseImage {
		return provider.BaseImage{Name: name, Images: []string{}, SizeBytes: 3 << 20, State: state, UsedBy: append([]string{}, users...)}
	}
	used := image("base-used", provider.ImageReady, "volume proxy-1.qcow2")
	used.Images, used.URL, used.SHA256 = []string{"trixie"}, "https://images.example.net/trixie.qcow2", strings.Repeat("0a", 32)
	images := map[string][]provider.BaseImage{
		"beelink": {image("base-left", provider.ImageLeft), image("base-old", provider.ImageReady), used,
			image("base-writing", provider.ImageWriting), image("base-x", provider.ImageReady, "volume a", "volume b", "domain c\x1b[2J")},
		"cedar": {image("base-other", provider.ImageReady)},
	}
	d.wrap = func(p *fake.Provider) provider.Provider { return keeper{p, images, errs, removed} }
	return d, removed
}

func TestImages_table(t *testing.T) {
	d, removed := imageDesk(t, nil)
	want := `ENTRY       HOST      IMAGE            SIZE      STATE     USED BY                CHANGED
kvm2-home   beelink   not configured   3.0 MiB   Left      nobody                 -
kvm2-home   beelink   not configured   3.0 MiB   Ready     nobody                 -
kvm2-home   beelink   trixie           3.0 MiB   Ready     volume proxy-1.qcow2   -
kvm2-home   beelink   not configured   3.0 MiB   Writing   nobody                 -
kvm2-home   beelink   not configured   3.0 MiB   Ready     3 disks and VMs        -
kvm2-home   cedar     not configured   3.0 MiB   Ready     nobody                 -
`
	if diff := cmp.Diff(want, d.must("images").out); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if e := d.must("images", "-o", "wide"); strings.Contains(e.out, "\x1b") || !strings.Contains(e.out, "https://images.example.net/trixie.qcow2") {
		t.Errorf("the wide table lacks the URL, or lets an escape sequence through:\n%s", e.out)
	}
	if len(*removed) != 0 {
		t.Errorf("a list removed %v", *removed)
	}
}

func TestImages_removesOnlyWithYesAndOnlyTheUnused(t *testing.T) {
	d, removed := imageDesk(t, nil)
	e := d.must("images", "--remove-unused")
	if len(*removed) != 0 || strings.Count(e.out, "would go") != 3 || !strings.Contains(e.err, "--yes") {
		t.Errorf("without --yes, %v were removed, and it says:\n%s%s", *removed, e.out, e.err)
	}
	e = d.must("images", "--remove-unused", "--yes")
	slices.Sort(*removed)
	if diff := cmp.Diff([]string{"beelink/base-left", "beelink/base-old", "cedar/base-other"}, *removed); diff != "" {
		t.Errorf("removed: -want, +got:\n%s", diff)
	}
	if strings.Count(e.out, " removed\n") != 3 || strings.Count(e.out, " stays\n") != 3 {
		t.Errorf("it says:\n%s", e.out)
	}
	wantFailure(t, d.run("images", "--yes"), egressctl.CodeUsage, "--remove-unused")
}

func TestImages_oneFailureDoesNotHideTheRest(t *testing.T) {
	d, removed := imageDesk(t, map[string]error{
		"cedar":    fake.Unreachable(),
		"base-old": provider.Errorf(provider.ErrPermanent, provider.ReasonImageInUse, "volume late.qcow2 uses the image"),
	})
	e := d.run("images", "--remove-unused", "--yes", "-o", "json")
	if e.code == egressctl.CodeOK || !strings.Contains(e.err, "late.qcow2") || !strings.Contains(e.err, "host cedar") {
		t.Errorf("exit code %d, %s; want both failures", e.code, e.err)
	}
	var got struct {
		Images []struct {
			Name               string
			Removable, Removed bool
		}
		Errors []struct{ Host, Message string }
	}
	if err := json.Unmarshal([]byte(e.out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Images) != 5 || len(got.Errors) != 2 || got.Images[1].Removed || !got.Images[0].Removed {
		t.Errorf("got %+v", got)
	}
	if diff := cmp.Diff([]string{"beelink/base-left"}, *removed); diff != "" {
		t.Errorf("removed: -want, +got:\n%s", diff)
	}
}
