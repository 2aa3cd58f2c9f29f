package kvm2

import (
	"slices"
	"strings"

	"github.com/digitalocean/go-libvirt"

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
	codes   []libvirt.ErrorNumber // one of these, and
	all     []string              // every one of these in the message
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
	{[]libvirt.ErrorNumber{libvirt.ErrSystemError}, []string{"Cannot get interface MTU", "No such device"},
		verdict{provider.ErrTransient, reasonBridgeNotFound, adviceBridge}},
	{[]libvirt.ErrorNumber{libvirt.ErrInternalError, libvirt.ErrOperationFailed, libvirt.ErrSystemError}, []string{"Permission denied"},
		verdict{provider.ErrTransient, provider.ReasonPermissionDenied, "let QEMU's user on the host read the pool's files (AppArmor, SELinux or file modes)"}},
	{[]libvirt.ErrorNumber{libvirt.ErrInternalError}, []string{"asynchronous jobs running"},
		verdict{provider.ErrTransient, reasonBusy, ""}},
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

// codeOf gives the code, or ErrInternalError for one that no libvirt sends.
func codeOf(err libvirt.Error) libvirt.ErrorNumber {
	const highest = 1 << 16
	if err.Code > highest {
		return libvirt.ErrInternalError
	}
	return libvirt.ErrorNumber(err.Code)
}

func containsAll(text string, parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}
