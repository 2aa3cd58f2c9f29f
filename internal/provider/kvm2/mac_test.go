package kvm2

import (
	"net"
	"testing"
)

func TestMACFor_localUnicastAndStable(t *testing.T) {
	const uid = "3f1e9a52-6a7d-5c1b-9d7e-0c6f2b1a4e10"
	mac, err := net.ParseMAC(macFor(uid))
	if err != nil {
		t.Fatalf("parse %q: %v", macFor(uid), err)
	}
	if mac[0]&1 != 0 || mac[0]&2 == 0 {
		t.Errorf("%s is not a locally administered unicast address", mac)
	}
	if again := macFor(uid); again != mac.String() {
		t.Error("the MAC differs between two calls: a DHCP reservation could not be made before")
	}
	if macFor(uid) == macFor("3f1e9a52-6a7d-5c1b-9d7e-0c6f2b1a4e11") {
		t.Error("two UIDs got one MAC")
	}
}
