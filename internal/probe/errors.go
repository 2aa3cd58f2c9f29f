package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
)

// Reason says in one CamelCase word why a request did not pass.
type Reason string

// The reasons of Error.
const (
	// ReasonInvalidOptions: nothing was sent.
	ReasonInvalidOptions Reason = "InvalidOptions"
	// ReasonProxyUnreachable: no connection to the proxy.
	ReasonProxyUnreachable Reason = "ProxyUnreachable"
	// ReasonProxyInvalidAnswer: what answered is no HTTP proxy, or stopped in the middle.
	ReasonProxyInvalidAnswer Reason = "ProxyInvalidAnswer"
	// ReasonProxyAuthRejected: the proxy wants another credential (407).
	ReasonProxyAuthRejected Reason = "ProxyAuthRejected"
	// ReasonProxyDenied: the proxy's rules refuse this request (403).
	ReasonProxyDenied Reason = "ProxyDenied"
	// ReasonCheckURLUnreachable: the proxy took the request, and got no answer for it.
	ReasonCheckURLUnreachable Reason = "CheckURLUnreachable"
	// ReasonCheckURLFailed: the other end answered with another status than 2xx, or with a certificate
	// that does not verify.
	ReasonCheckURLFailed Reason = "CheckURLFailed"
	// ReasonTimeout: there is a connection, and the answer did not come in time.
	ReasonTimeout Reason = "Timeout"
	// ReasonCanceled: the caller gave up.
	ReasonCanceled Reason = "Canceled"
)

// Error is every error of this package. Its text never holds a credential, nor anything that a peer
// sent but a status code.
type Error struct {
	Reason Reason
	// Message is one sentence.
	Message string
	// Err is the cause, if there is one.
	Err error
}

// Error gives the message and the cause.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// ReasonOf gives the reason of an error of this package, and "" for any other.
func ReasonOf(err error) Reason {
	var typed *Error
	if errors.As(err, &typed) {
		return typed.Reason
	}
	return ""
}

func newError(reason Reason, message string, cause error) *Error {
	return &Error{Reason: reason, Message: message, Err: harmless(cause)}
}

// sentinels are causes that are kept as they are.
var sentinels = []error{context.DeadlineExceeded, context.Canceled, io.ErrUnexpectedEOF, io.EOF}

// harmless gives a cause that repeats no word of a peer: a hostile one could put our own credential
// into its status line, or its certificate's names. nil when nothing is left to say.
func harmless(err error) error {
	for _, known := range sentinels {
		if errors.Is(err, known) {
			return known
		}
	}
	var (
		network   *net.OpError
		plain     tls.RecordHeaderError
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &network):
		return network
	case errors.As(err, &plain):
		return errors.New("it does not speak TLS")
	case errors.As(err, &authority):
		return errors.New("its certificate is signed by an unknown authority")
	case errors.As(err, &name):
		return errors.New("its certificate is for another name")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return errors.New("its certificate is not valid at this time")
	case errors.As(err, &invalid):
		return errors.New("its certificate is not valid")
	}
	return nil
}
