package conformance

import (
	"slices"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

var getAddressCases = []Case{
	{Name: "get of an instance with an address", Rules: []string{"R2.3.11", "R2.3.16", "R2.3.17"}, try: getAddress},
	{Name: "get of an instance without an address", Rules: []string{"R2.3.12", "R2.3.15"}, try: getNoAddress},
	{Name: "get of an instance with addresses that lead nowhere", Rules: []string{"R2.3.16", "R2.3.12"}, try: getUseless},
	{Name: "get of an instance with another's interface", Rules: []string{"R2.3.17"}, try: getOthersInterface},
}

// Documentation addresses (RFC 5737) that stand for a guest's.
const (
	guestAddress  = "192.0.2.10"
	otherAddress  = "192.0.2.66"
	otherHardware = "02:00:00:00:00:66"
)

// useless are addresses that are no way to an instance.
var useless = []string{"127.0.0.1", "169.254.7.7", "224.0.0.1", "0.0.0.0", "::1", "fe80::1", "ff02::1", "::"}

// interfaces gives an instance of its own and its network interfaces.
func (e *exam) interfaces(rules []string, interfaces ...Interface) (provider.Instance, bool) {
	id := e.create(e.request())
	if e.h.SetInterfaces == nil {
		e.lacks("way to give a guest addresses", rules...)
		return provider.Instance{}, false
	}
	if !e.done(e.h.SetInterfaces(e.ctx, id, interfaces...), "way to give a guest addresses", rules...) {
		return provider.Instance{}, false
	}
	inst, err := e.p.Get(e.ctx, id)
	e.need(err == nil, "get: %v", err)
	return inst, true
}

func getAddress(e *exam) {
	if e.h.Axes["ip-source"] != "discovered" {
		e.addressAtOnce()
	}
	inst, ok := e.interfaces(e.def.Rules,
		Interface{Addresses: append(slices.Clone(useless), guestAddress)}, Interface{MAC: otherHardware, Addresses: []string{otherAddress}})
	if !ok {
		return
	}
	e.must("R2.3.11", inst.State == provider.StateRunning, "the state is %q with an address, want Running", inst.State)
	for _, address := range inst.Addresses {
		e.must("R2.3.16", !slices.Contains(useless, address), "Get reports the address %s", address)
	}
	e.must("R2.3.16", slices.Contains(inst.Addresses, guestAddress), "Get reports %q, want %s among them", inst.Addresses, guestAddress)
	e.must("R2.3.17", !slices.Contains(inst.Addresses, otherAddress), "Get reports %s, the address of another interface", otherAddress)
}

// addressAtOnce looks at an instance that nobody gave an address behind the provider's back: where none has to be
// discovered, it has one from the start.
func (e *exam) addressAtOnce() {
	inst, err := e.p.Get(e.ctx, e.create(e.request()))
	e.need(err == nil, "get: %v", err)
	e.must("R2.3.11", inst.State == provider.StateRunning && len(inst.Addresses) > 0,
		"a new instance, whose address need not be discovered, has the state %q and the addresses %q", inst.State, inst.Addresses)
	for _, address := range inst.Addresses {
		e.must("R2.3.16", !slices.Contains(useless, address), "Get reports the address %s", address)
	}
}

func getNoAddress(e *exam) {
	inst, ok := e.interfaces(e.def.Rules)
	if !ok {
		return
	}
	e.must("R2.3.12", inst.State == provider.StateProvisioning, "the state is %q without an address, want Provisioning", inst.State)
	e.must("R2.3.15", len(inst.Addresses) == 0, "Get reports %q, want none", inst.Addresses)
}

func getUseless(e *exam) {
	inst, ok := e.interfaces(e.def.Rules, Interface{Addresses: useless})
	if !ok {
		return
	}
	e.must("R2.3.16", len(inst.Addresses) == 0, "Get reports %q, want none", inst.Addresses)
	if len(inst.Addresses) == 0 {
		e.must("R2.3.12", inst.State == provider.StateProvisioning, "the state is %q without a usable address, want Provisioning", inst.State)
	}
}

func getOthersInterface(e *exam) {
	inst, ok := e.interfaces(e.def.Rules, Interface{MAC: otherHardware, Addresses: []string{otherAddress}})
	if ok {
		e.must("R2.3.17", len(inst.Addresses) == 0, "Get reports %q, the addresses of an interface that is not the instance's", inst.Addresses)
	}
}
