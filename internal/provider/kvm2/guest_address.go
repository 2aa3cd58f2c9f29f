package kvm2

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/go-logr/logr"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// guestAddress gives the guest's IPv4 address, or "" while none is known. The agent is asked where it
// has opened its channel, as it knows best; the host's neighbour table is the other source. What
// libvirt answers to either, also what cannot be read, is never an error of the call: a guest that does not tell is one that is
// not ready. Errors are those of the connection and of ctx.
func guestAddress(ctx context.Context, c backend, dom domain, info domainInfo) (string, error) {
	macs := ownMACs(info)
	if info.AgentConnected {
		ifaces, err := askGuest(ctx, c, dom, sourceAgent)
		if err != nil {
			return "", err
		}
		if ip := firstIPv4(ifaces, macs); ip != "" {
			return ip, nil
		}
	}
	ifaces, err := askGuest(ctx, c, dom, sourceARP)
	if err != nil {
		return "", err
	}
	return soleIPv4(ifaces, macs), nil
}

// ownMACs gives the MAC of the interface that Create defined. An interface that somebody added, or a
// tunnel inside the guest, is not the instance's address. A domain whose MAC was changed by hand
// counts with all it has.
func ownMACs(info domainInfo) []string {
	if own := macFor(info.Mark.UID); slices.ContainsFunc(info.MACs, func(m string) bool { return strings.EqualFold(m, own) }) {
		return []string{own}
	}
	return info.MACs
}

// askGuest asks one source and takes a refusal by libvirt for "nothing known": the agent is not up, the
// domain has just stopped, or the neighbour table cannot be read ("wrong nlmsg len" in a namespace).
func askGuest(ctx context.Context, c backend, dom domain, source addressSource) ([]guestInterface, error) {
	ifaces, err := c.DomainInterfaceAddresses(ctx, dom, source)
	if isAnswer(err) || isUnintelligible(err) {
		logr.FromContextOrDiscard(ctx).V(2).Info("no address from this source", "domain", dom.Name, "source", source, "answer", err.Error())
		return nil, nil
	}
	return ifaces, err
}

// isUnintelligible reports whether err is an answer that could not be read, as against a connection that was lost,
// a limit that passed or a context that ended. What a guest says must not hide the guest (R2.3.15).
func isUnintelligible(err error) bool {
	var typed *provider.Error
	return err != nil && !errors.As(err, &typed) && judgeTransport(err).reason == provider.ReasonBackendError
}

// soleIPv4 is firstIPv4 for the neighbour table, which is a cache: with two addresses for one MAC
// nobody knows which of them is the old one, so neither is taken.
func soleIPv4(ifaces []guestInterface, macs []string) string {
	first := firstIPv4(ifaces, macs)
	if first == "" {
		return ""
	}
	var rest []guestInterface
	for _, iface := range ifaces {
		iface.Addrs = slices.DeleteFunc(slices.Clone(iface.Addrs), func(text string) bool {
			addr, err := netip.ParseAddr(text)
			return err == nil && addr.String() == first
		})
		rest = append(rest, iface)
	}
	if firstIPv4(rest, macs) != "" {
		return ""
	}
	return first
}
