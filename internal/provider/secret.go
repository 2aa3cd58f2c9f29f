package provider

import (
	"fmt"
	"log/slog"
)

// Secret holds bytes that never reach a log, an error, an event or a span: every way to print or to
// encode it gives its length only. Convert it with []byte(s) where it is used.
//
// fmt has two gaps that no method can close. It calls no method of what an unexported field holds, so
// keep secrets in exported ones. It calls none either once a verb does not fit what stands around the
// secret (%p of a struct, %w outside Errorf, %s of a pointer to a struct inside a list): a type with a
// Secret that may be printed gets a Format method of its own, as CreateRequest has.
type Secret []byte

// String implements fmt.Stringer.
func (s Secret) String() string { return fmt.Sprintf("[secret, %d bytes]", len(s)) }

// GoString implements fmt.GoStringer, for %#v.
func (s Secret) GoString() string { return s.String() }

// Format implements fmt.Formatter, so that %x, %q and %v tell no more than %s.
func (s Secret) Format(f fmt.State, _ rune) {
	_, _ = f.Write([]byte(s.String())) // fmt.State keeps what it is given: there is nobody to tell
}

// MarshalText implements encoding.TextMarshaler, for JSON, YAML, XML and text encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalLog implements logr.Marshaler.
func (s Secret) MarshalLog() any { return s.String() }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
