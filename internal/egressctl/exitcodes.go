package egressctl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Exit codes. They are part of the interface: a code never changes its meaning.
const (
	CodeOK          = 0
	CodeOther       = 1
	CodeUsage       = 2
	CodeNotFound    = 3
	CodePermanent   = 4
	CodeTransient   = 5
	CodeQuota       = 6
	CodeNotServing  = 7
	CodeNotReady    = 8
	CodeInterrupted = 130
)

// ExitCodes is the part of help that explains them.
const ExitCodes = `Exit codes:
  0    done
  1    something on this machine failed, such as the state directory
  2    wrong usage, or a problem in the providers file
  3    there is no such instance
  4    it will not work until something is changed: key, host key, pool, image, name
  5    it may work later: host down, time-out, anything unclear
  6    the host has no room
  7    the instance runs, but no request passed through it in time
  8    check: a host is not ready; conformance: a rule of the contract is broken
  130  interrupted (SIGINT or SIGTERM); run the same command again to go on`

// failure ends a command with a code. Its text is one sentence.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func fail(code int, format string, args ...any) error {
	return &failure{code: code, err: fmt.Errorf(format, args...)}
}

// asFailure gives err its code. What carries none comes from the parsing of the command line.
func asFailure(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	return &failure{code: CodeUsage, err: fmt.Errorf("%w (egressctl --help shows how)", err)}
}

// local is a failure on this machine.
func local(err error) error {
	if err == nil {
		return nil
	}
	return &failure{code: CodeOther, err: err}
}

// place says where something was to happen, for error sentences.
type place struct {
	entry string
	host  string // may be empty
}

func (p place) String() string {
	if p.host == "" {
		return p.entry
	}
	return p.entry + ", host " + p.host
}

// refused is a provider's error as a failure: where, what was being done, what came back.
func refused(at place, doing string, err error) error {
	if err == nil {
		return nil
	}
	return &failure{code: codeOf(err), err: fmt.Errorf("%s: %s: %w", at, doing, unnamed(at.entry, err))}
}

// codeOf gives the exit code of a provider's error.
func codeOf(err error) int {
	class := provider.ClassOf(err)
	for known, code := range map[error]int{
		provider.ErrNotFound: CodeNotFound, provider.ErrPermanent: CodePermanent, provider.ErrQuotaExceeded: CodeQuota,
	} {
		if errors.Is(class, known) {
			return code
		}
	}
	return CodeTransient
}

// unnamed drops from the text of a provider's error what a sentence says already: the entry's name, and
// the call with the ID.
func unnamed(entry string, err error) error {
	text := strings.TrimPrefix(err.Error(), entry+": ")
	var typed *provider.Error
	if errors.As(err, &typed) && strings.Contains(typed.Op, "/") {
		text = strings.TrimPrefix(text, typed.Op+": ")
	}
	return renamed{err: err, text: text}
}

// renamed is an error with another text.
type renamed struct {
	err  error
	text string
}

func (r renamed) Error() string { return r.text }
func (r renamed) Unwrap() error { return r.err }

// interrupted says whether ctx, the whole run's, was ended from outside.
func interrupted(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }
