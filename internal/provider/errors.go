package provider

import (
	"context"
	"errors"
	"fmt"
)

// The four error classes, matched with errors.Is.
var (
	// ErrNotFound: the backend proved that the thing does not exist.
	ErrNotFound = errors.New("not found")
	// ErrTransient: try again soon; the outcome of the call may be unknown.
	ErrTransient = errors.New("transient")
	// ErrPermanent: will not heal by itself. Callers retry it slowly, and at once when something that
	// it depends on changes; they do not give up.
	ErrPermanent = errors.New("permanent")
	// ErrQuotaExceeded: the backend has no room now.
	ErrQuotaExceeded = errors.New("quota exceeded")
)

// Reasons, CamelCase, for conditions. A provider may add its own.
const (
	ReasonReady                  = "Ready"
	ReasonNotFound               = "NotFound"
	ReasonBackendError           = "BackendError"
	ReasonTimeout                = "Timeout"
	ReasonCanceled               = "Canceled"
	ReasonUnreachable            = "Unreachable"
	ReasonInvalidRequest         = "InvalidRequest"
	ReasonInvalidID              = "InvalidID"
	ReasonUnknownZone            = "UnknownZone"
	ReasonUnknownMachineType     = "UnknownMachineType"
	ReasonUnknownImage           = "UnknownImage"
	ReasonNameConflict           = "NameConflict"
	ReasonNotOurs                = "NotOurs"
	ReasonHostNotConfigured      = "HostNotConfigured"
	ReasonAuthFailed             = "AuthFailed"
	ReasonHostKeyMismatch        = "HostKeyMismatch"
	ReasonHostKeyUnknown         = "HostKeyUnknown"
	ReasonHostKeyRevoked         = "HostKeyRevoked"
	ReasonForwardingDenied       = "ForwardingDenied"
	ReasonSocketUnavailable      = "SocketUnavailable"
	ReasonPermissionDenied       = "PermissionDenied"
	ReasonCredentialsUnavailable = "CredentialsUnavailable"
	ReasonCredentialsInvalid     = "CredentialsInvalid"
	ReasonPoolNotFound           = "PoolNotFound"
	ReasonPoolNotActive          = "PoolNotActive"
	ReasonPoolUnsupported        = "PoolUnsupported"
	ReasonQuotaExceeded          = "QuotaExceeded"
	ReasonImageUnavailable       = "ImageUnavailable"
	ReasonImageChecksumMismatch  = "ImageChecksumMismatch"
	ReasonImageInvalid           = "ImageInvalid"
)

// Error is the typed error of every provider call. Its text never holds a secret.
type Error struct {
	// Provider is the entry's configured name, given by Wrap.
	Provider string
	// Op is what was being done, for example "create" or "volume upload". May be empty.
	Op string
	// Class is one of the four sentinel errors.
	Class error
	// Reason is CamelCase, one of the constants or a provider's own.
	Reason string
	// Err is the cause; its text is the message.
	Err error
}

// Error gives "<provider>: <op>: <cause>", leaving out what is empty.
func (e *Error) Error() string {
	msg := e.Reason
	if e.Err != nil {
		msg = e.Err.Error()
	}
	if e.Op != "" {
		msg = e.Op + ": " + msg
	}
	if e.Provider != "" {
		msg = e.Provider + ": " + msg
	}
	return msg
}

// Unwrap gives the class and the cause to errors.Is and errors.As.
func (e *Error) Unwrap() []error {
	out := make([]error, 0, 2)
	for _, err := range []error{e.Class, e.Err} {
		if err != nil {
			out = append(out, err)
		}
	}
	return out
}

// Errorf makes a typed error of the given class and reason.
func Errorf(class error, reason, format string, args ...any) *Error {
	return &Error{Class: class, Reason: reason, Err: fmt.Errorf(format, args...)}
}

// Wrap gives err the configured name of the entry, where it does not have one yet. An error without
// a class becomes ErrTransient: a doubt is never proof. Wrap(name, nil) is nil.
func Wrap(name string, err error) error {
	if err == nil {
		return nil
	}
	var typed *Error
	if errors.As(err, &typed) {
		out := *typed
		if err != error(typed) {
			// Something was added around the typed error: keep that text, the class and the reason.
			out = Error{Class: typed.Class, Reason: typed.Reason, Err: err}
		}
		out.Provider = name
		return &out
	}
	reason := ReasonBackendError
	switch {
	case errors.Is(err, context.Canceled):
		reason = ReasonCanceled
	case errors.Is(err, context.DeadlineExceeded):
		reason = ReasonTimeout
	}
	return &Error{Provider: name, Class: ErrTransient, Reason: reason, Err: err}
}

// ClassOf gives the class of err: nil for nil, ErrTransient for an error without one.
func ClassOf(err error) error {
	if err == nil {
		return nil
	}
	for _, class := range []error{ErrNotFound, ErrPermanent, ErrQuotaExceeded} {
		if errors.Is(err, class) {
			return class
		}
	}
	return ErrTransient
}

// ReasonOf gives the reason of err: "" for nil, ReasonBackendError for an error without one.
func ReasonOf(err error) string {
	var typed *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &typed) && typed.Reason != "":
		return typed.Reason
	}
	return ReasonBackendError
}
