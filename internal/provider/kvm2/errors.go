package kvm2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/digitalocean/go-libvirt"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Reasons of this provider's own, beside the shared ones.
const (
	// reasonVirtualizationUnavailable: the host cannot run a domain of the type asked for.
	reasonVirtualizationUnavailable = "VirtualizationUnavailable"
	// reasonFirmwareUnavailable: the host has no UEFI firmware that fits.
	reasonFirmwareUnavailable = "FirmwareUnavailable"
	// reasonBridgeNotFound: the bridge does not exist on the host.
	reasonBridgeNotFound = "BridgeNotFound"
	// reasonAgentUnavailable: the guest agent does not answer.
	reasonAgentUnavailable = "AgentUnavailable"
	// reasonVolumeExists: a volume of that name is already in the pool.
	reasonVolumeExists = "VolumeExists"
	// reasonBusy: another job holds the domain or the pool.
	reasonBusy = "Busy"
)

// verdict is a class, a reason, and what the user can do about it.
type verdict struct {
	class  error
	reason string
	advice string
}

// byCode is the meaning of those libvirt codes that have one of their own. All others are Transient:
// a code says less than it seems to, so a doubt is never proof.
var byCode = map[libvirt.ErrorNumber]verdict{
	libvirt.ErrNoDomain:          {class: provider.ErrNotFound, reason: provider.ReasonNotFound},
	libvirt.ErrNoStorageVol:      {class: provider.ErrNotFound, reason: provider.ReasonNotFound},
	libvirt.ErrNoStoragePool:     {class: provider.ErrPermanent, reason: provider.ReasonPoolNotFound, advice: "define the pool on the host (virsh pool-define-as) or name another in the configuration"},
	libvirt.ErrXMLError:          {class: provider.ErrPermanent, reason: provider.ReasonInvalidRequest},
	libvirt.ErrNoSupport:         {class: provider.ErrPermanent, reason: provider.ReasonBackendError, advice: "the host's libvirt does not know this call"},
	libvirt.ErrInvalidArg:        {class: provider.ErrPermanent, reason: provider.ReasonInvalidRequest},
	libvirt.ErrAuthFailed:        {class: provider.ErrPermanent, reason: provider.ReasonAuthFailed, advice: adviceSocketUser},
	libvirt.ErrAccessDenied:      {class: provider.ErrPermanent, reason: provider.ReasonPermissionDenied, advice: adviceSocketUser},
	libvirt.ErrXMLDetail:         {class: provider.ErrTransient, reason: provider.ReasonInvalidRequest},
	libvirt.ErrStorageVolExist:   {class: provider.ErrTransient, reason: reasonVolumeExists},
	libvirt.ErrAuthUnavailable:   {class: provider.ErrTransient, reason: provider.ReasonPermissionDenied, advice: adviceSocketUser},
	libvirt.ErrAuthCancelled:     {class: provider.ErrTransient, reason: provider.ReasonPermissionDenied, advice: adviceSocketUser},
	libvirt.ErrOperationTimeout:  {class: provider.ErrTransient, reason: reasonBusy, advice: "another job holds the domain"},
	libvirt.ErrResourceBusy:      {class: provider.ErrTransient, reason: reasonBusy},
	libvirt.ErrAgentUnresponsive: {class: provider.ErrTransient, reason: reasonAgentUnavailable},
	libvirt.ErrAgentUnsynced:     {class: provider.ErrTransient, reason: reasonAgentUnavailable},
	libvirt.ErrConfigUnsupported: {class: provider.ErrTransient, reason: reasonVirtualizationUnavailable, advice: "see virsh domcapabilities on the host for what it can run"},
	libvirt.ErrNoNetwork:         {class: provider.ErrTransient, reason: reasonBridgeNotFound, advice: adviceBridge},
	libvirt.ErrRPC:               {class: provider.ErrTransient, reason: provider.ReasonUnreachable},
}

const (
	adviceSocketUser = "let the SSH user use libvirt's socket (on Debian, add it to the group libvirt)"
	adviceBridge     = "make the bridge on the host or name another in the configuration"
	adviceFirmware   = "install OVMF on the host, or say firmware: bios for an image that boots so"
	advicePool       = "start the pool on the host (virsh pool-start, virsh pool-autostart)"
	adviceSpace      = "make room in the pool"
)

// byText tells apart what libvirt reports with one code: 55 alone covers at least nine states. The
// daemon speaks the C locale unless someone set another, and then only the reason is less exact; the
// one class that depends on the text is that of a full disk.
var byText = []struct {
	codes   []libvirt.ErrorNumber
	all     []string // every one of these occurs in the message
	verdict verdict
}{
	{[]libvirt.ErrorNumber{libvirt.ErrOperationInvalid}, []string{"storage pool", "is not active"},
		verdict{provider.ErrTransient, provider.ReasonPoolNotActive, advicePool}},
	{[]libvirt.ErrorNumber{libvirt.ErrSystemError, libvirt.ErrInternalError, libvirt.ErrOperationFailed}, []string{"No space left on device"},
		verdict{provider.ErrQuotaExceeded, provider.ReasonQuotaExceeded, adviceSpace}},
	{[]libvirt.ErrorNumber{libvirt.ErrSystemError, libvirt.ErrInternalError, libvirt.ErrOperationFailed}, []string{"Disk quota exceeded"},
		verdict{provider.ErrQuotaExceeded, provider.ReasonQuotaExceeded, adviceSpace}},
	{[]libvirt.ErrorNumber{libvirt.ErrOperationFailed, libvirt.ErrInternalError}, []string{"firmware"},
		verdict{provider.ErrTransient, reasonFirmwareUnavailable, adviceFirmware}},
	{[]libvirt.ErrorNumber{libvirt.ErrSystemError, libvirt.ErrInternalError, libvirt.ErrOperationFailed}, []string{"bridge", "No such device"},
		verdict{provider.ErrTransient, reasonBridgeNotFound, adviceBridge}},
	{[]libvirt.ErrorNumber{libvirt.ErrSystemError}, []string{"Cannot get interface MTU", "No such device"},
		verdict{provider.ErrTransient, reasonBridgeNotFound, adviceBridge}},
	{[]libvirt.ErrorNumber{libvirt.ErrInternalError, libvirt.ErrOperationFailed, libvirt.ErrSystemError}, []string{"Permission denied"},
		verdict{provider.ErrTransient, provider.ReasonPermissionDenied, "let QEMU's user on the host read the pool's files (AppArmor, SELinux or file modes)"}},
	{[]libvirt.ErrorNumber{libvirt.ErrInternalError}, []string{"asynchronous jobs running"},
		verdict{provider.ErrTransient, reasonBusy, ""}},
}

// classify gives err, which came of op, its class and reason. libvirt's and the transport's errors are
// judged; an error that has a class keeps it, and gets op where it has none. classify(op, nil) is nil.
func classify(op string, err error) error {
	if err == nil {
		return nil
	}
	var typed *provider.Error
	if errors.As(err, &typed) {
		return keepClass(op, err, typed)
	}
	v := judge(err)
	return &provider.Error{Op: op, Class: v.class, Reason: v.reason, Err: advise(clipped(err), v.advice)}
}

// classifyInCreate is classify for Create, which never says NotFound: what it misses there is a
// step's doing, and the next attempt makes it.
func classifyInCreate(op string, err error) error {
	err = classify(op, err)
	if !errors.Is(err, provider.ErrNotFound) {
		return err
	}
	var typed *provider.Error
	errors.As(err, &typed)
	cause := typed.Err
	if errors.Is(cause, provider.ErrNotFound) {
		cause = errors.New(cause.Error()) // keep the text and drop the class that is in the chain
	}
	return &provider.Error{Provider: typed.Provider, Op: typed.Op, Class: provider.ErrTransient, Reason: provider.ReasonBackendError, Err: cause}
}

// isLibvirtError reports whether err is libvirt's own with one of the codes.
func isLibvirtError(err error, codes ...libvirt.ErrorNumber) bool {
	var lerr libvirt.Error
	return errors.As(err, &lerr) && slices.Contains(codes, codeOf(lerr))
}

// codeOf gives the code, or ErrInternalError for one that no libvirt sends.
func codeOf(err libvirt.Error) libvirt.ErrorNumber {
	const highest = 1 << 16
	if err.Code > highest {
		return libvirt.ErrInternalError
	}
	return libvirt.ErrorNumber(err.Code)
}

// keepClass returns typed as it is where it has an op, else a copy with op. Text that was put around
// it is kept.
func keepClass(op string, err error, typed *provider.Error) error {
	if typed.Op != "" {
		return err
	}
	out := *typed
	out.Op = op
	if err != error(typed) {
		out.Err = err
	}
	return &out
}

func judge(err error) verdict {
	var lerr libvirt.Error
	if errors.As(err, &lerr) {
		return judgeLibvirt(lerr)
	}
	return judgeTransport(err)
}

func judgeLibvirt(err libvirt.Error) verdict {
	code := codeOf(err)
	for _, row := range byText {
		if slices.Contains(row.codes, code) && containsAll(err.Message, row.all) {
			return row.verdict
		}
	}
	if v, ok := byCode[code]; ok {
		return v
	}
	return verdict{class: provider.ErrTransient, reason: provider.ReasonBackendError}
}

// judgeTransport covers what has no libvirt code: SSH, the network, and the end of a context.
func judgeTransport(err error) verdict {
	var (
		keyErr     *knownhosts.KeyError
		revoked    *knownhosts.RevokedError
		passphrase *ssh.PassphraseMissingError
		channel    *ssh.OpenChannelError
		netErr     net.Error
	)
	switch {
	case errors.Is(err, context.Canceled):
		return verdict{class: provider.ErrTransient, reason: provider.ReasonCanceled}
	case errors.Is(err, context.DeadlineExceeded):
		return verdict{class: provider.ErrTransient, reason: provider.ReasonTimeout}
	case errors.As(err, &revoked):
		return verdict{class: provider.ErrPermanent, reason: provider.ReasonHostKeyRevoked}
	case errors.As(err, &keyErr) && len(keyErr.Want) > 0:
		return verdict{provider.ErrPermanent, provider.ReasonHostKeyMismatch, "if the host was reinstalled, put its new key into the known_hosts file"}
	case errors.As(err, &keyErr):
		return verdict{provider.ErrPermanent, provider.ReasonHostKeyUnknown, "add the host's key to the known_hosts file (ssh-keyscan)"}
	case errors.As(err, &passphrase):
		return verdict{provider.ErrPermanent, provider.ReasonCredentialsInvalid, "use a key without a passphrase"}
	case strings.Contains(err.Error(), "ssh: unable to authenticate"):
		return verdict{provider.ErrPermanent, provider.ReasonAuthFailed, "add the public key to the user's authorized_keys on the host"}
	case errors.Is(err, fs.ErrNotExist):
		return verdict{class: provider.ErrTransient, reason: provider.ReasonCredentialsUnavailable}
	case errors.As(err, &channel) && channel.Reason == ssh.Prohibited:
		return verdict{provider.ErrTransient, provider.ReasonForwardingDenied, "set AllowStreamLocalForwarding yes in the host's sshd_config"}
	case errors.As(err, &channel):
		return verdict{provider.ErrTransient, provider.ReasonSocketUnavailable, "check that libvirt runs on the host and that the configured socket is its"}
	case errors.As(err, &netErr) && netErr.Timeout():
		return verdict{class: provider.ErrTransient, reason: provider.ReasonTimeout}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, libvirt.ErrInterrupted), errors.As(err, &netErr):
		return verdict{class: provider.ErrTransient, reason: provider.ReasonUnreachable}
	}
	return verdict{class: provider.ErrTransient, reason: provider.ReasonBackendError}
}

func containsAll(text string, parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}

func advise(err error, advice string) error {
	if advice == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, advice)
}

// clipped bounds the text of libvirt's own error, which the host chooses.
func clipped(err error) error {
	if lerr, ok := err.(libvirt.Error); ok { //nolint:errorlint // only the outermost text is replaced
		return libvirt.Error{Code: lerr.Code, Message: clip(lerr.Message)}
	}
	return err
}

// clip bounds a text that someone else chose, for use in an error.
func clip(text string) string {
	const limit = 512
	if len(text) <= limit {
		return text
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "..."
}
