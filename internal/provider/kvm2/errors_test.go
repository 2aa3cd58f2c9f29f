package kvm2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

func libvirtError(code libvirt.ErrorNumber, message string) error {
	return libvirt.Error{Code: uint32(code), Message: message}
}

func TestClassify_table(t *testing.T) {
	typed := func(class error, reason string) error { return provider.Errorf(class, reason, "said by the dialer") }
	cases := map[string]struct {
		why    string
		err    error
		class  error
		reason string
	}{
		"no domain":         {"libvirt looked and found none", libvirtError(libvirt.ErrNoDomain, "Domain not found"), provider.ErrNotFound, provider.ReasonNotFound},
		"no volume":         {"libvirt looked and found none", libvirtError(libvirt.ErrNoStorageVol, "Storage volume not found"), provider.ErrNotFound, provider.ReasonNotFound},
		"no pool":           {"a missing pool says nothing of what was in it", libvirtError(libvirt.ErrNoStoragePool, "Storage pool not found"), provider.ErrPermanent, provider.ReasonPoolNotFound},
		"XML error":         {"the same XML will be refused again", libvirtError(libvirt.ErrXMLError, "XML error: name a/b cannot contain '/'"), provider.ErrPermanent, provider.ReasonInvalidRequest},
		"no support":        {"the host's libvirt cannot do it", libvirtError(libvirt.ErrNoSupport, "this function is not supported"), provider.ErrPermanent, provider.ReasonBackendError},
		"invalid argument":  {"the same argument will be refused again", libvirtError(libvirt.ErrInvalidArg, "invalid argument"), provider.ErrPermanent, provider.ReasonInvalidRequest},
		"auth failed":       {"libvirt refused the user", libvirtError(libvirt.ErrAuthFailed, "authentication failed"), provider.ErrPermanent, provider.ReasonAuthFailed},
		"access denied":     {"libvirt refused the user", libvirtError(libvirt.ErrAccessDenied, "access denied"), provider.ErrPermanent, provider.ReasonPermissionDenied},
		"pool not active":   {"one call starts it", libvirtError(libvirt.ErrOperationInvalid, "Requested operation is not valid: storage pool 'default' is not active"), provider.ErrTransient, provider.ReasonPoolNotActive},
		"domain not on":     {"code 55 is not only the pool's", libvirtError(libvirt.ErrOperationInvalid, "Requested operation is not valid: domain is not running"), provider.ErrTransient, provider.ReasonBackendError},
		"disk full":         {"there is no room now", libvirtError(libvirt.ErrSystemError, "Unable to write /srv/vms/images/x: No space left on device"), provider.ErrQuotaExceeded, provider.ReasonQuotaExceeded},
		"quota":             {"there is no room now", libvirtError(libvirt.ErrSystemError, "cannot write data: Disk quota exceeded"), provider.ErrQuotaExceeded, provider.ReasonQuotaExceeded},
		"no firmware":       {"OVMF is a package away", libvirtError(libvirt.ErrOperationFailed, "operation failed: Unable to find any firmware to satisfy 'efi'"), provider.ErrTransient, reasonFirmwareUnavailable},
		"no KVM":            {"the host's BIOS or module may be put right", libvirtError(libvirt.ErrConfigUnsupported, "unsupported configuration: CPU mode 'host-passthrough' is not supported by hypervisor"), provider.ErrTransient, reasonVirtualizationUnavailable},
		"no bridge":         {"a bridge may come up later", libvirtError(libvirt.ErrSystemError, "Cannot get interface MTU on 'br9': No such device"), provider.ErrTransient, reasonBridgeNotFound},
		"no network":        {"a network may be started later", libvirtError(libvirt.ErrNoNetwork, "Network not found"), provider.ErrTransient, reasonBridgeNotFound},
		"file not readable": {"it is the host's to mend", libvirtError(libvirt.ErrSystemError, "Cannot access storage file '/data/kvm/x': Permission denied"), provider.ErrTransient, provider.ReasonPermissionDenied},
		"no polkit agent":   {"it is the host's to mend", libvirtError(libvirt.ErrAuthUnavailable, "authentication unavailable: no polkit agent available"), provider.ErrTransient, provider.ReasonPermissionDenied},
		"pool job":          {"the job ends", libvirtError(libvirt.ErrInternalError, "internal error: pool 'default' has asynchronous jobs running."), provider.ErrTransient, reasonBusy},
		"state lock":        {"the job ends", libvirtError(libvirt.ErrOperationTimeout, "Timed out during operation: cannot acquire state change lock"), provider.ErrTransient, reasonBusy},
		"volume exists":     {"somebody else made it meanwhile", libvirtError(libvirt.ErrStorageVolExist, "storage volume 'x' exists already"), provider.ErrTransient, reasonVolumeExists},
		"agent silent":      {"it may still be starting", libvirtError(libvirt.ErrAgentUnresponsive, "Guest agent is not responding"), provider.ErrTransient, reasonAgentUnavailable},
		"internal error":    {"a code without a meaning is a doubt", libvirtError(libvirt.ErrInternalError, "internal error: unexpected"), provider.ErrTransient, provider.ReasonBackendError},
		"unknown code":      {"a newer libvirt has more codes", libvirt.Error{Code: 4_000_000_000, Message: "new"}, provider.ErrTransient, provider.ReasonBackendError},

		"SSH auth":           {"the dialer's class is kept", typed(provider.ErrPermanent, provider.ReasonAuthFailed), provider.ErrPermanent, provider.ReasonAuthFailed},
		"host key mismatch":  {"the dialer's class is kept", typed(provider.ErrPermanent, provider.ReasonHostKeyMismatch), provider.ErrPermanent, provider.ReasonHostKeyMismatch},
		"host key unknown":   {"the dialer's class is kept", typed(provider.ErrPermanent, provider.ReasonHostKeyUnknown), provider.ErrPermanent, provider.ReasonHostKeyUnknown},
		"key file missing":   {"the Secret may be pending", typed(provider.ErrTransient, provider.ReasonCredentialsUnavailable), provider.ErrTransient, provider.ReasonCredentialsUnavailable},
		"key does not parse": {"the dialer's class is kept", typed(provider.ErrPermanent, provider.ReasonCredentialsInvalid), provider.ErrPermanent, provider.ReasonCredentialsInvalid},

		"canceled":         {"the caller gave up", fmt.Errorf("call: %w", context.Canceled), provider.ErrTransient, provider.ReasonCanceled},
		"deadline":         {"the host was too slow", fmt.Errorf("call: %w", context.DeadlineExceeded), provider.ErrTransient, provider.ReasonTimeout},
		"socket deadline":  {"the host was too slow", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, provider.ErrTransient, provider.ReasonTimeout},
		"refused":          {"the host is down", &net.OpError{Op: "dial", Err: errors.New("connection refused")}, provider.ErrTransient, provider.ReasonUnreachable},
		"EOF":              {"the connection was cut", io.EOF, provider.ErrTransient, provider.ReasonUnreachable},
		"interrupted":      {"the connection was cut", libvirt.ErrInterrupted, provider.ErrTransient, provider.ReasonUnreachable},
		"closed":           {"the connection was dropped", fmt.Errorf("write: %w", net.ErrClosed), provider.ErrTransient, provider.ReasonUnreachable},
		"something else":   {"a doubt is never proof", errors.New("odd"), provider.ErrTransient, provider.ReasonBackendError},
		"wrapped libvirt":  {"the code counts, however deep", fmt.Errorf("look up: %w", libvirtError(libvirt.ErrNoDomain, "Domain not found")), provider.ErrNotFound, provider.ReasonNotFound},
		"typed not found":  {"an error that has a class keeps it", typed(provider.ErrNotFound, provider.ReasonNotFound), provider.ErrNotFound, provider.ReasonNotFound},
		"text around type": {"an error that has a class keeps it", fmt.Errorf("dial: %w", typed(provider.ErrPermanent, provider.ReasonAuthFailed)), provider.ErrPermanent, provider.ReasonAuthFailed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := classify("step", tc.err)
			if got := provider.ClassOf(err); !errors.Is(got, tc.class) {
				t.Errorf("%s: class is %v, want %v", tc.why, got, tc.class)
			}
			if got := provider.ReasonOf(err); got != tc.reason {
				t.Errorf("%s: reason is %s, want %s", tc.why, got, tc.reason)
			}
			var typed *provider.Error
			if !errors.As(tc.err, &typed) && !errors.Is(err, tc.err) {
				t.Errorf("the cause is not in the chain of %v", err)
			}
			if !strings.HasPrefix(err.Error(), "step: ") {
				t.Errorf("error %q does not begin with what was being done", err)
			}

			inCreate := classifyInCreate("step", tc.err)
			want := tc.class
			if errors.Is(tc.class, provider.ErrNotFound) {
				want = provider.ErrTransient
			}
			if got := provider.ClassOf(inCreate); !errors.Is(got, want) || errors.Is(inCreate, provider.ErrNotFound) {
				t.Errorf("in Create the class of %q is %v, want %v and never NotFound", inCreate, got, want)
			}
		})
	}
}

func TestClassify_nilIsNil(t *testing.T) {
	if err := classify("step", nil); err != nil {
		t.Errorf("classify(nil) is %v, want nil", err)
	}
	if err := classifyInCreate("step", nil); err != nil {
		t.Errorf("classifyInCreate(nil) is %v, want nil", err)
	}
}

func TestClassify_keepsTheFirstOp(t *testing.T) {
	err := classify("create", classify("upload the seed", io.EOF))
	if got, want := err.Error(), "upload the seed: EOF"; got != want {
		t.Errorf("error is %q, want %q: what was done is said once", got, want)
	}
}

// A host chooses libvirt's messages, up to the largest frame.
func TestClassify_boundsTheHostsText(t *testing.T) {
	err := classify("step", libvirtError(libvirt.ErrInternalError, strings.Repeat("ü", 1<<20)))
	if len(err.Error()) > 1000 {
		t.Errorf("the error has %d bytes, want it bounded", len(err.Error()))
	}
	if !isLibvirtError(err, libvirt.ErrInternalError) {
		t.Error("the libvirt code is lost")
	}
}

func TestClassify_saysWhatToDo(t *testing.T) {
	cases := map[string]struct {
		err  error
		want string
	}{
		"pool inactive": {libvirtError(libvirt.ErrOperationInvalid, "storage pool 'default' is not active"), "virsh pool-start"},
		"no firmware":   {libvirtError(libvirt.ErrOperationFailed, "Unable to find any firmware to satisfy 'efi'"), "install OVMF"},
		"no bridge":     {libvirtError(libvirt.ErrSystemError, "Cannot get interface MTU on 'br9': No such device"), "make the bridge"},
		"denied":        {libvirtError(libvirt.ErrAccessDenied, "access denied"), "group libvirt"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := classify("step", tc.err); !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q does not say %q", err, tc.want)
			}
		})
	}
}
