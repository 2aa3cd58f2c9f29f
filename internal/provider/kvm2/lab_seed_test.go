//go:build lab

package kvm2

import (
	"context"
	"strings"
	"testing"
)

// TestLab_seedIsItsOwnersOnly reads the seed's mode from a real host while the instance runs, when libvirt
// has handed the file to QEMU's user, and after it was stopped.
func TestLab_seedIsItsOwnersOnly(t *testing.T) {
	it := newIntegration(t)
	it.must(t, &cutter{}, it.create)
	t.Cleanup(func() { it.must(t, &cutter{}, it.delete) })
	for _, when := range []string{"while it runs", "after it was stopped"} {
		it.look(t, func(ctx context.Context, c conn) error {
			p, err := c.StoragePoolLookupByName(ctx, it.host.Pool)
			if err != nil {
				return err
			}
			vol, err := c.StorageVolLookupByName(ctx, p, seedName(it.request.Name))
			if err != nil {
				return err
			}
			doc, err := c.StorageVolGetXMLDesc(ctx, vol)
			if err == nil && !strings.Contains(doc, "<mode>"+modePrivate+"</mode>") {
				t.Errorf("%s the seed's mode is not %s:\n%s", when, modePrivate, doc)
			}
			if err != nil || when != "while it runs" {
				return err
			}
			dom, err := c.DomainLookupByName(ctx, it.request.Name)
			if err != nil {
				return err
			}
			return c.DomainDestroy(ctx, dom)
		})
	}
}
