package provider

import "context"

// Progress is one report of a long step. Reports are hints for people; nothing may depend on them.
type Progress struct {
	// Step names what goes on, for example "image transfer".
	Step string
	// Done and Total are bytes for a transfer; Total 0 means that the step has no measure.
	Done, Total int64
}

type progressKey struct{}

// WithProgress gives the provider a function to report to. It is called from the goroutine that does
// the work, so it must return quickly, and possibly from several.
func WithProgress(ctx context.Context, report func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}

// Report sends p to the function that WithProgress set, if any.
func Report(ctx context.Context, p Progress) {
	if report, ok := ctx.Value(progressKey{}).(func(Progress)); ok {
		report(p)
	}
}
