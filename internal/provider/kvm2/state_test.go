package kvm2

import (
	"testing"

	"github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

func TestMapState_table(t *testing.T) {
	cases := map[string]struct {
		reason string
		state  libvirt.DomainState
		hasIP  bool
		want   provider.State
	}{
		"nostate":            {"it is between two states", libvirt.DomainNostate, false, provider.StateProvisioning},
		"nostate with IP":    {"an address alone does not make it run", libvirt.DomainNostate, true, provider.StateProvisioning},
		"running":            {"nobody can reach it yet", libvirt.DomainRunning, false, provider.StateProvisioning},
		"running with IP":    {"it runs and can be reached", libvirt.DomainRunning, true, provider.StateRunning},
		"blocked":            {"blocked on a resource is running", libvirt.DomainBlocked, false, provider.StateProvisioning},
		"blocked with IP":    {"blocked on a resource is running", libvirt.DomainBlocked, true, provider.StateRunning},
		"paused":             {"a full disk pauses it, and it proxies nothing", libvirt.DomainPaused, true, provider.StateStopped},
		"shutting down":      {"it will not serve again by itself", libvirt.DomainShutdown, true, provider.StateStopped},
		"shut off":           {"the host was rebooted", libvirt.DomainShutoff, false, provider.StateStopped},
		"shut off, stale IP": {"an old address must not make it Running", libvirt.DomainShutoff, true, provider.StateStopped},
		"crashed":            {"it does not run", libvirt.DomainCrashed, true, provider.StateStopped},
		"suspended":          {"it does not run", libvirt.DomainPmsuspended, true, provider.StateStopped},
		"unknown":            {"a newer libvirt may have more states", 99, true, provider.StateStopped},
		"negative":           {"a host may send anything", -1, true, provider.StateStopped},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := mapState(int32(tc.state), tc.hasIP); got != tc.want {
				t.Errorf("%s: state is %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

func TestFirstIPv4_filters(t *testing.T) {
	const mac, other = "52:54:00:aa:bb:cc", "52:54:00:dd:ee:ff"
	cases := map[string]struct {
		reason string
		ifaces []guestInterface
		macs   []string
		want   string
	}{
		"one address": {
			"the plain case",
			[]guestInterface{{Name: "ens3", MAC: mac, Addrs: []string{"198.18.0.10"}}}, []string{mac}, "198.18.0.10",
		},
		"loopback interface": {
			"every guest has one",
			[]guestInterface{{Name: "lo", MAC: "00:00:00:00:00:00", Addrs: []string{"127.0.0.1", "::1"}}, {Name: "ens3", MAC: mac, Addrs: []string{"198.18.0.10"}}},
			[]string{mac}, "198.18.0.10",
		},
		"loopback address on our interface": {
			"it is nobody else's way in",
			[]guestInterface{{MAC: mac, Addrs: []string{"127.0.0.2", "198.18.0.10"}}}, []string{mac}, "198.18.0.10",
		},
		"link-local": {
			"169.254/16 means that DHCP failed",
			[]guestInterface{{MAC: mac, Addrs: []string{"169.254.7.7"}}}, []string{mac}, "",
		},
		"IPv6 first": {
			"IPv4 is taken although IPv6 came first",
			[]guestInterface{{MAC: mac, Addrs: []string{"fe80::1", "2001:db8::10", "198.18.0.10"}}}, []string{mac}, "198.18.0.10",
		},
		"only IPv6": {
			"addresses are IPv4", []guestInterface{{MAC: mac, Addrs: []string{"fe80::1", "2001:db8::10"}}}, []string{mac}, "",
		},
		"IPv4 in IPv6": {
			"a mapped address is an IPv6 one", []guestInterface{{MAC: mac, Addrs: []string{"::ffff:198.18.0.10"}}}, []string{mac}, "",
		},
		"tunnel before ours": {
			"a tunnel in the guest has another MAC, or none",
			[]guestInterface{{Name: "utun0", MAC: "", Addrs: []string{"10.0.0.1"}}, {Name: "br-x", MAC: other, Addrs: []string{"172.17.0.1"}}, {Name: "ens3", MAC: mac, Addrs: []string{"198.18.0.10"}}},
			[]string{mac}, "198.18.0.10",
		},
		"no interface of ours": {
			"no guess is made", []guestInterface{{MAC: other, Addrs: []string{"198.18.0.10"}}}, []string{mac}, "",
		},
		"empty MACs do not match": {
			"a domain without MACs owns no address", []guestInterface{{MAC: "", Addrs: []string{"198.18.0.10"}}}, []string{""}, "",
		},
		"letter case": {
			"agents write MACs either way", []guestInterface{{MAC: "52:54:00:AA:BB:CC", Addrs: []string{"198.18.0.10"}}}, []string{mac}, "198.18.0.10",
		},
		"interface without address": {
			"it is up before DHCP has answered", []guestInterface{{Name: "ens3", MAC: mac}}, []string{mac}, "",
		},
		"garbage": {
			"the guest says what it likes",
			[]guestInterface{{MAC: mac, Addrs: []string{"", "300.1.1.1", "198.18.0.10/24", "1.2.3", "\x00", "0.0.0.0", "255.255.255.255", "224.0.0.1", "198.18.0.11"}}},
			[]string{mac}, "198.18.0.11",
		},
		"first of two": {
			"the first one is used, in the guest's order", []guestInterface{{MAC: mac, Addrs: []string{"198.18.0.10", "198.18.0.11"}}}, []string{mac}, "198.18.0.10",
		},
		"nothing": {"no interfaces, no address", nil, nil, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := firstIPv4(tc.ifaces, tc.macs); got != tc.want {
				t.Errorf("%s: address is %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}
