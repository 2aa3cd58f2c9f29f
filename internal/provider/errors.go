package provider

import (
	"errors"
	"fmt"
	"slices"
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
	ReasonInvalidConfig          = "InvalidConfig"
	ReasonConfigChanged          = "ConfigChanged"
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
	ReasonImageInUse             = "ImageInUse"
	ReasonNoConsole              = "NoConsole"
)

// Error is the typed error of every provider call. Its text never holds a secret. It matches its own
// Class and no other one, whatever the classes in the chain of its cause are; all else in that chain is
// found by errors.Is and errors.As.
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
	if e.Provider == "" {
		return e.unnamed()
	}
	return e.Provider + ": " + e.unnamed()
}

// unnamed is the text without the provider's name.
func (e *Error) unnamed() string {
	msg := e.Reason
	switch {
	case e.Err != nil:
		msg = e.Err.Error()
	case msg == "" && e.Class != nil:
		msg = e.Class.Error()
	}
	if e.Op != "" {
		msg = e.Op + ": " + msg
	}
	return msg
}

// Unwrap gives the class and the cause to errors.Is and errors.As.
func (e *Error) Unwrap() []error {
	out := make([]error, 0, 2)
	if e.Class != nil {
		out = append(out, e.Class)
	}
	if e.Err != nil {
		out = append(out, classless{e.Err})
	}
	return out
}

// Errorf makes a typed error of the given class and reason.
func Errorf(class error, reason, format string, args ...any) *Error {
	return &Error{Class: class, Reason: reason, Err: fmt.Errorf(format, args...)}
}

// ClassOf gives the one class of err: nil for nil, ErrTransient for an error without one.
func ClassOf(err error) error {
	if err == nil {
		return nil
	}
	for _, class := range classes {
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

// isClass reports whether err is one of the four sentinels themselves, not what wraps one.
func isClass(err error) bool { return slices.Contains(classes, err) }

// classes in the order in which they are believed: NotFound comes last, only where nothing else speaks
// against it.
var classes = []error{ErrTransient, ErrPermanent, ErrQuotaExceeded, ErrNotFound}

// classless is a cause whose class does not count: a backend's "no such domain" in the middle of a
// create is a cause of a transient failure, and nobody may take it for a proof of absence.
type classless struct{ err error }

func (c classless) Error() string { return c.err.Error() }

// Is looks through the cause for everything but a class.
func (c classless) Is(target error) bool { return !isClass(target) && errors.Is(c.err, target) }

// As looks through the cause.
func (c classless) As(target any) bool { return errors.As(c.err, target) }
