package kvm2

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/digitalocean/go-libvirt"
	"golang.org/x/crypto/ssh"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// explainOpen gives a refused channel its class and reason. OpenSSH says "open failed" for a missing
// socket, one without permission and forbidden forwarding alike, so the host is asked which it is.
func (l *sshLink) explainOpen(err error) error {
	var refused *ssh.OpenChannelError
	if !errors.As(err, &refused) {
		return provider.Errorf(provider.ErrTransient, provider.ReasonUnreachable,
			"host %s: the SSH connection ended while %s was being opened: %w", l.host.Name, l.socket, err)
	}
	err = &ssh.OpenChannelError{Reason: refused.Reason, Message: clip(refused.Message)}
	if refused.Reason == ssh.Prohibited {
		return l.forwardingDenied(err)
	}
	switch l.probeSocket() {
	case socketMissing: // it may come back with the daemon
		return provider.Errorf(provider.ErrTransient, provider.ReasonSocketUnavailable,
			"host %s has no %s; install and start libvirtd%s", l.host.Name, l.socket, modularHint(l.socket))
	case socketNotSocket:
		return provider.Errorf(provider.ErrPermanent, provider.ReasonSocketUnavailable,
			"host %s: %s is not a socket", l.host.Name, l.socket)
	case socketForbidden:
		return l.permissionDenied(err)
	case socketListening:
		return l.forwardingDenied(err)
	case socketIdle: // as after a daemon's crash
		return provider.Errorf(provider.ErrTransient, provider.ReasonSocketUnavailable,
			"host %s: nothing seems to listen on %s; start libvirtd%s, and if it runs allow sshd to forward the "+
				"socket (AllowStreamLocalForwarding): %w", l.host.Name, l.socket, modularHint(l.socket), err)
	default:
		return provider.Errorf(provider.ErrTransient, provider.ReasonSocketUnavailable,
			"host %s refused to forward %s: it is missing, or user %s may not use it, or sshd forbids it "+
				"(AllowStreamLocalForwarding)%s: %w", l.host.Name, l.socket, l.host.User, modularHint(l.socket), err)
	}
}

func (l *sshLink) forwardingDenied(err error) error {
	return provider.Errorf(provider.ErrPermanent, provider.ReasonForwardingDenied,
		"host %s: the login works, and sshd does not forward %s for user %s; allow it (AllowStreamLocalForwarding yes, "+
			"no DisableForwarding, port-forwarding after restrict in authorized_keys): %w",
		l.host.Name, l.socket, l.host.User, err)
}

func (l *sshLink) permissionDenied(err error) error {
	return provider.Errorf(provider.ErrPermanent, provider.ReasonPermissionDenied,
		"host %s: user %s may not use libvirt's %s; add the user to the libvirt group: %w",
		l.host.Name, l.host.User, l.socket, err)
}

// authCodes are libvirt's errors for a client that it does not let in: polkit and SASL included.
var authCodes = []libvirt.ErrorNumber{
	libvirt.ErrAuthFailed, libvirt.ErrAuthCancelled, libvirt.ErrAuthUnavailable, libvirt.ErrAccessDenied,
}

// explainConnect gives a failed greeting its class and reason. Other errors of libvirt stay as they
// are.
func (l *sshLink) explainConnect(guard *frameGuard, err error) error {
	var answer libvirt.Error
	if errors.As(err, &answer) {
		err = clipped(answer)
	}
	switch {
	case errors.As(err, &answer) && slices.Contains(authCodes, codeOf(answer)):
		return l.permissionDenied(err)
	case errors.As(err, &answer):
		return fmt.Errorf("open libvirt on host %s: %w", l.host.Name, err)
	case errors.Is(guard.failure(), errNotLibvirt):
		return provider.Errorf(provider.ErrPermanent, provider.ReasonSocketUnavailable,
			"host %s: what answers on %s is not libvirt: %w", l.host.Name, l.socket, guard.failure())
	}
	return provider.Errorf(provider.ErrTransient, provider.ReasonSocketUnavailable,
		"host %s: what listens on %s did not greet as libvirt does; check that it is libvirt's socket and that "+
			"the daemon takes more clients (max_clients): %w", l.host.Name, l.socket, errors.Join(err, guard.failure()))
}

// socketState is what a host says of a path.
type socketState int

const (
	socketUnknown socketState = iota
	socketMissing
	socketNotSocket
	socketForbidden
	socketListening
	socketIdle
)

// Exit codes of the probe, unlike those that shells use themselves.
var socketExits = map[int]socketState{
	61: socketMissing, 62: socketNotSocket, 63: socketForbidden, 64: socketListening, 65: socketIdle,
}

// socketScript finds out in plain sh why a socket, %[1]s, could not be connected to. The kernel's table has
// the sockets that a process holds: a file that a dead daemon left is not in it.
const socketScript = `[ -e %[1]s ] || exit 61; [ -S %[1]s ] || exit 62; [ -w %[1]s ] || exit 63
while read -r a b c d e f g held; do [ "$held" = %[1]s ] && exit 64; done </proc/net/unix
exit 65`

// probeSocket asks the host's shell about the socket, only after the channel to it was refused. An
// account without a shell gives socketUnknown. It ends with the link at the latest.
func (l *sshLink) probeSocket() socketState {
	session, err := l.client.NewSession()
	if err != nil {
		return socketUnknown
	}
	defer func() { _ = session.Close() }() // its end was seen
	script := fmt.Sprintf(socketScript, shellQuote(l.socket))
	var exit *ssh.ExitError
	if errors.As(session.Run("exec sh -c "+shellQuote(script)), &exit) {
		return socketExits[exit.ExitStatus()]
	}
	return socketUnknown
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
