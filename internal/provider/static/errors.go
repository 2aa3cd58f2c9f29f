package static

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Reasons of this provider alone.
const (
	// ReasonLeaseDirectoryUnavailable: the lease directory is not there.
	ReasonLeaseDirectoryUnavailable = "LeaseDirectoryUnavailable"
	// ReasonLeaseUnreadable: a lease's file cannot be understood.
	ReasonLeaseUnreadable = "LeaseUnreadable"
	// ReasonEndpointUnreachable: an endpoint does not accept a connection.
	ReasonEndpointUnreachable = "EndpointUnreachable"
)

// classify gives an error of the store its class and reason, and the zone's name (R8.1.11). What is not known
// is Transient (R8.1.5).
func classify(zone, doing string, err error) error {
	if err == nil {
		return nil
	}
	class, reason := provider.ErrTransient, provider.ReasonBackendError
	is := func(errs ...error) bool {
		for _, one := range errs {
			if errors.Is(err, one) {
				return true
			}
		}
		return false
	}
	var typed *provider.Error
	switch {
	case errors.As(err, &typed):
		class, reason = typed.Class, typed.Reason
	case is(context.Canceled):
		reason = provider.ReasonCanceled
	case is(context.DeadlineExceeded):
		reason = provider.ReasonTimeout
	case is(errNoDirectory):
		reason = ReasonLeaseDirectoryUnavailable
	case is(errUnreadable):
		reason = ReasonLeaseUnreadable
	case is(syscall.EACCES, syscall.EPERM, syscall.EROFS):
		class, reason = provider.ErrPermanent, provider.ReasonPermissionDenied
		err = fmt.Errorf("%w: give the user of this program the lease directory, writable", err)
	case is(syscall.ENOSPC, syscall.EDQUOT):
		class, reason = provider.ErrQuotaExceeded, provider.ReasonQuotaExceeded
		err = fmt.Errorf("%w: make room in the lease directory's file system", err)
	}
	return &provider.Error{Op: doing, Class: class, Reason: reason, Err: fmt.Errorf("zone %s: %w", zone, err)}
}
