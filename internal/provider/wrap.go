package provider

import (
	"context"
	"errors"
	"strings"
	"unicode"
)

// Wrap gives err the configured name of the entry. The name stands once and in front, also when err
// was wrapped before and when text was added around an error that was. The result has exactly one
// class, ClassOf(err): an error without a class becomes ErrTransient, because a doubt is never proof.
// errors.Is and errors.As find everything else that err holds. Wrap(name, nil) is nil.
func Wrap(name string, err error) error {
	if err == nil {
		return nil
	}
	class := ClassOf(err)
	if typed, ok := err.(*Error); ok { //nolint:errorlint // only the outermost error is renamed
		out := *typed
		out.Provider, out.Class, out.Err = name, class, anonymous(typed.Err)
		return &out
	}
	return &Error{Provider: name, Class: class, Reason: reasonFor(class, err), Err: anonymous(err)}
}

// reasonFor is the reason of the first typed error in err that has the class, or says why there is none.
func reasonFor(class, err error) string {
	reason := ""
	visitTyped(err, func(e *Error) {
		if reason == "" && e.Class == class { //nolint:errorlint // classes are the sentinels themselves
			reason = e.Reason
		}
	})
	switch {
	case reason != "":
		return reason
	case errors.Is(err, context.Canceled):
		return ReasonCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return ReasonTimeout
	case errors.Is(class, ErrNotFound):
		return ReasonNotFound
	case errors.Is(class, ErrQuotaExceeded):
		return ReasonQuotaExceeded
	}
	return ReasonBackendError
}

// maxCause is how many bytes of a cause's text are kept (R8.1.13): with name and operation a text stays
// within 1 KiB.
const maxCause = 896

// anonymous is err with no provider's name in its text, which is one line and not long.
func anonymous(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	visitTyped(err, func(e *Error) {
		if e.Provider != "" {
			text = strings.Replace(text, e.Error(), e.unnamed(), 1)
		}
	})
	if text = oneLine(text); text == err.Error() {
		return err
	}
	return retold{text: text, err: err}
}

// oneLine puts a text into one line of at most maxCause bytes, whatever the backend sent.
func oneLine(text string) string {
	text = strings.TrimSpace(text)
	cut := len(text) > maxCause
	text = strings.ReplaceAll(text[:min(len(text), maxCause)], "\n", "; ")
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	if !cut && len(text) <= maxCause {
		return text
	}
	const mark = "..."
	return strings.ToValidUTF8(text[:min(len(text), maxCause-len(mark))], "") + mark
}

// visitTyped calls visit for every *Error in err's tree, outer ones first.
func visitTyped(err error, visit func(*Error)) {
	switch e := err.(type) { //nolint:errorlint // the tree is walked node by node
	case *Error:
		visit(e)
		visitTyped(e.Err, visit)
	case interface{ Unwrap() error }:
		visitTyped(e.Unwrap(), visit)
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			visitTyped(part, visit)
		}
	}
}

// retold is an error under another text.
type retold struct {
	text string
	err  error
}

func (r retold) Error() string { return r.text }

func (r retold) Unwrap() error { return r.err }
