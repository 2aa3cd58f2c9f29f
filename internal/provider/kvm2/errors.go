package kvm2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

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

// keepClass returns typed as it is where it has an op, else a copy with op. Text that was put around
// it is kept.
func keepClass(op string, err error, typed *provider.Error) error {
	if typed.Op != "" {
		return err
	}
	out := *typed
	out.Op = op
	if err != error(typed) { //nolint:errorlint // identity: has something been added around it?
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

// judgeTransport covers what has no libvirt code: the network and the end of a context. What goes wrong
// with SSH itself, credentials and host keys, has its class from the dialer.
func judgeTransport(err error) verdict {
	var netErr net.Error
	isNet := errors.As(err, &netErr)
	switch {
	case errors.Is(err, context.Canceled):
		return verdict{class: provider.ErrTransient, reason: provider.ReasonCanceled}
	case errors.Is(err, context.DeadlineExceeded), isNet && netErr.Timeout():
		return verdict{class: provider.ErrTransient, reason: provider.ReasonTimeout}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, libvirt.ErrInterrupted), isNet:
		return verdict{class: provider.ErrTransient, reason: provider.ReasonUnreachable}
	}
	return verdict{class: provider.ErrTransient, reason: provider.ReasonBackendError}
}

func advise(err error, advice string) error {
	if advice == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, advice)
}

// clipped bounds the text of an error that a host chose, and keeps what is in its chain.
func clipped(err error) error {
	if err == nil || len(err.Error()) <= maxText {
		return err
	}
	return clippedError{err}
}

type clippedError struct{ err error }

func (e clippedError) Error() string { return clip(e.err.Error()) }
func (e clippedError) Unwrap() error { return e.err }

// maxText is as much of a text that someone else chose as goes into an error, in bytes.
const maxText = 512

// clip bounds such a text. Its middle goes: a program's own words are often at the end of libvirt's.
func clip(text string) string {
	const cut = " ... "
	if len(text) <= maxText {
		return text
	}
	half := (maxText - len(cut)) / 2
	return strings.ToValidUTF8(text[:half], "") + cut + strings.ToValidUTF8(text[len(text)-half:], "")
}
