package provider

import (
	"context"
	"io"
)

// Consoler is optional: what an instance has written to its console, also before it could be reached
// and when it never could.
type Consoler interface {
	// ReadConsole writes to w what the console has from the offset on, at most a few MiB, and returns the
	// offset after it, from which a later call goes on. An offset beyond the end means that the log was
	// begun anew, and it is read from its start. The bytes are the guest's own and not to be trusted: a
	// terminal must not get them as they are.
	// It changes nothing (R2.13.2), and returns the class and reason of Get's error where Get would
	// return one (R2.13.1). An instance that has no log is ErrPermanent with ReasonNoConsole. An error of w
	// ends the call.
	ReadConsole(ctx context.Context, id string, from int64, w io.Writer) (next int64, err error)
}
