package kvm2

import (
	"crypto/sha256"
	"fmt"
)

// macFor derives the MAC of an instance's interface from its UID, so that it is known, for example for
// a DHCP reservation, before the instance exists, and is the same in every attempt to create it. The
// prefix is the one that QEMU's guests use: locally administered, unicast.
func macFor(uid string) string {
	sum := sha256.Sum256([]byte("egress-proxies-operator mac " + uid))
	return fmt.Sprintf("52:54:00:%02x:%02x:%02x", sum[0], sum[1], sum[2])
}
