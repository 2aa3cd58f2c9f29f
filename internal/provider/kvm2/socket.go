package kvm2

import (
	"path"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// socketPath gives the path of libvirt's socket on the host. It refuses, as ErrPermanent, what would
// only fail later and less clearly: a relative path, and the sockets that allow no change.
func socketPath(h provider.KVMHost) (string, error) {
	socket := h.Socket
	if socket == "" {
		socket = provider.DefaultSocket
	}
	refuse := func(why string) (string, error) {
		return "", provider.Errorf(provider.ErrPermanent, provider.ReasonSocketUnavailable,
			"host %s: socket %q %s", h.Name, socket, why)
	}
	switch {
	case !path.IsAbs(socket):
		return refuse("must be an absolute path on the host")
	case strings.HasSuffix(socket, "-sock-ro"):
		return refuse("is the read-only one; name the one without -ro")
	case strings.HasSuffix(socket, "/virtqemud-sock"):
		return refuse("serves no storage; on a host with the modular daemons use virtproxyd's, " + provider.DefaultSocket)
	}
	return socket, nil
}

// modularHint is for hosts where the usual socket is missing: the daemon that serves domains there
// (virtqemud) serves no storage, so its socket is no way out.
func modularHint(socket string) string {
	if socket != provider.DefaultSocket {
		return ""
	}
	return ", or on a host with the modular daemons virtproxyd (systemctl enable --now virtproxyd.socket)"
}
