package provider_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

var classes = map[string]error{
	"NotFound":      provider.ErrNotFound,
	"Transient":     provider.ErrTransient,
	"Permanent":     provider.ErrPermanent,
	"QuotaExceeded": provider.ErrQuotaExceeded,
}

// matched gives the names of the classes that errors.Is finds in err.
func matched(err error) []string {
	var out []string
	for _, name := range []string{"NotFound", "Transient", "Permanent", "QuotaExceeded"} {
		if errors.Is(err, classes[name]) {
			out = append(out, name)
		}
	}
	return out
}

type outcome struct {
	Text, Reason string
	Matched      []string
	Cause        bool
}

func TestWrap_table(t *testing.T) {
	cause := io.ErrUnexpectedEOF
	typed := func() error {
		return provider.Errorf(provider.ErrPermanent, provider.ReasonUnknownZone, "zone x: %w", cause)
	}
	notFound := provider.Errorf(provider.ErrNotFound, provider.ReasonNotFound, "no domain: %w", cause)
	cases := map[string]struct {
		reason string
		err    error
		want   outcome
	}{
		"typed": {
			reason: "a typed error keeps class, reason and cause",
			err:    typed(),
			want:   outcome{"home: zone x: unexpected EOF", provider.ReasonUnknownZone, []string{"Permanent"}, true},
		},
		"twice": {
			reason: "the name stands once however often an error is wrapped",
			err:    provider.Wrap("home", provider.Wrap("home", typed())),
			want:   outcome{"home: zone x: unexpected EOF", provider.ReasonUnknownZone, []string{"Permanent"}, true},
		},
		"text around a typed error": {
			reason: "added text is kept, after the name",
			err:    fmt.Errorf("create: %w", typed()),
			want:   outcome{"home: create: zone x: unexpected EOF", provider.ReasonUnknownZone, []string{"Permanent"}, true},
		},
		"text around a wrapped error": {
			reason: "the name moves to the front of text added around it",
			err:    fmt.Errorf("create: %w", provider.Wrap("home", typed())),
			want:   outcome{"home: create: zone x: unexpected EOF", provider.ReasonUnknownZone, []string{"Permanent"}, true},
		},
		"text around, wrapped, text around again": {
			reason: "each layer's name is taken out",
			err:    fmt.Errorf("retry: %w", provider.Wrap("home", fmt.Errorf("create: %w", provider.Wrap("home", typed())))),
			want:   outcome{"home: retry: create: zone x: unexpected EOF", provider.ReasonUnknownZone, []string{"Permanent"}, true},
		},
		"a wrapped error as the cause of a typed one": {
			reason: "the cause's name is taken out too",
			err:    provider.Errorf(provider.ErrTransient, provider.ReasonBackendError, "list: %w", provider.Wrap("home", typed())),
			want:   outcome{"home: list: zone x: unexpected EOF", provider.ReasonBackendError, []string{"Transient"}, true},
		},
		"another provider's name": {
			reason: "the configured name replaces another one",
			err:    provider.Wrap("other", typed()),
			want:   outcome{"home: zone x: unexpected EOF", provider.ReasonUnknownZone, []string{"Permanent"}, true},
		},
		"joined": {
			reason: "of several classes there is one afterwards, and a doubt beats a proof of absence",
			err: errors.Join(provider.Wrap("home", notFound),
				provider.Wrap("home", provider.Errorf(provider.ErrTransient, provider.ReasonTimeout, "host b"))),
			want: outcome{"home: no domain: unexpected EOF; host b", provider.ReasonTimeout, []string{"Transient"}, true},
		},
		"not found as the cause of a transient one": {
			reason: "the class of a cause is not the error's class: only a positive proof is NotFound",
			err:    provider.Errorf(provider.ErrTransient, provider.ReasonBackendError, "create: %w", notFound),
			want:   outcome{"home: create: no domain: unexpected EOF", provider.ReasonBackendError, []string{"Transient"}, true},
		},
		"no class": {
			reason: "a doubt is transient",
			err:    fmt.Errorf("read: %w", cause),
			want:   outcome{"home: read: unexpected EOF", provider.ReasonBackendError, []string{"Transient"}, true},
		},
		"typed without a class": {
			reason: "a doubt is transient, typed or not",
			err:    &provider.Error{Op: "read", Err: cause},
			want:   outcome{"home: read: unexpected EOF", provider.ReasonBackendError, []string{"Transient"}, true},
		},
		"a bare class": {
			reason: "a sentinel in the chain is a class",
			err:    fmt.Errorf("get: %w", provider.ErrNotFound),
			want:   outcome{"home: get: not found", provider.ReasonNotFound, []string{"NotFound"}, false},
		},
		"canceled": {
			reason: "cancellation has a reason of its own",
			err:    fmt.Errorf("get: %w", context.Canceled),
			want:   outcome{"home: get: context canceled", provider.ReasonCanceled, []string{"Transient"}, false},
		},
		"deadline": {
			reason: "a deadline has a reason of its own",
			err:    context.DeadlineExceeded,
			want:   outcome{"home: context deadline exceeded", provider.ReasonTimeout, []string{"Transient"}, false},
		},
		"quota": {
			reason: "a bare quota sentinel gets its reason",
			err:    provider.ErrQuotaExceeded,
			want:   outcome{"home: quota exceeded", provider.ReasonQuotaExceeded, []string{"QuotaExceeded"}, false},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := provider.Wrap("home", tc.err)
			got := outcome{err.Error(), provider.ReasonOf(err), matched(err), errors.Is(err, cause)}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if again := provider.Wrap("home", err); again.Error() != err.Error() {
				t.Errorf("wrapping again must change nothing: want %q, got %q", err, again)
			}
			if class := provider.ClassOf(err); !errors.Is(class, classes[tc.want.Matched[0]]) {
				t.Errorf("ClassOf must agree with errors.Is: want %s, got %v", tc.want.Matched[0], class)
			}
		})
	}
}

func TestWrap_oneShortLine(t *testing.T) {
	long := provider.Errorf(provider.ErrTransient, provider.ReasonBackendError, "libvirt says\r\n\tno\x1b[2J %s", strings.Repeat("ä", 1<<20))
	for name, err := range map[string]error{"typed": long, "text around": fmt.Errorf("create: %w", long), "no class": errors.New(long.Error())} {
		t.Run(name, func(t *testing.T) {
			wrapped := provider.Wrap("home", err)
			got := wrapped.Error()
			if len(got) > 1024 || !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) {
				t.Errorf("a text must be one line of at most 1 KiB whatever the backend sent, has %d bytes and begins with %.80q", len(got), got)
			}
			if !strings.HasSuffix(got, "...") || !errors.Is(wrapped, provider.ErrTransient) {
				t.Errorf("a text that was cut says so, and the error stays what it is: ...%.20q", got[len(got)-20:])
			}
		})
	}
}

func TestWrap_nilIsNil(t *testing.T) {
	if err := provider.Wrap("home", nil); err != nil {
		t.Errorf("Wrap of nil must be nil, got %v", err)
	}
	if class, reason := provider.ClassOf(nil), provider.ReasonOf(nil); class != nil || reason != "" {
		t.Errorf("nil has no class and no reason, got %v and %q", class, reason)
	}
}

func TestWrap_leavesItsArgument(t *testing.T) {
	shared := provider.Errorf(provider.ErrPermanent, provider.ReasonUnknownZone, "zone x")
	_ = provider.Wrap("home", shared) // only its effect on shared matters
	if shared.Provider != "" {
		t.Errorf("Wrap must not change the error that it is given, which others may share: it now has the name %q", shared.Provider)
	}
}

// pathError is a type that errors.As looks for.
type pathError struct{ Path string }

func (e *pathError) Error() string { return "no " + e.Path }

func TestError_asFindsTypesInTheCause(t *testing.T) {
	err := provider.Wrap("home", fmt.Errorf("read: %w",
		provider.Wrap("home", provider.Errorf(provider.ErrTransient, "CredentialsUnavailable", "key: %w", &pathError{"/key"}))))
	var found *pathError
	if !errors.As(err, &found) || found.Path != "/key" {
		t.Errorf("errors.As must find the cause's type through both wrappings of %q", err)
	}
}

func TestError_textSaysWhatThereIs(t *testing.T) {
	cases := map[string]struct {
		reason string
		err    *provider.Error
		want   string
	}{
		"all":        {"name, operation and cause", &provider.Error{Provider: "p", Op: "create", Class: provider.ErrPermanent, Reason: "R", Err: io.EOF}, "p: create: EOF"},
		"no cause":   {"the reason stands in for a cause", &provider.Error{Provider: "p", Class: provider.ErrPermanent, Reason: "R"}, "p: R"},
		"class only": {"the class stands in for a reason", &provider.Error{Class: provider.ErrQuotaExceeded}, "quota exceeded"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.err.Error()); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
