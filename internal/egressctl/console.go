package egressctl

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/output"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

const consoleHelp = `Show what a VM has written to its serial console: firmware, kernel, boot and cloud-init, also of a VM that
never came up or is off. Its host keeps the last few MiB of it, over restarts.

The text is the guest's own and may hold anything. Escape sequences and control characters are taken out
of it, so that it can do nothing to your terminal; --raw leaves them in, for a file or a pager that can
take it.`

const consoleExample = `  egressctl console berlin-1
  egressctl console berlin-1 --follow
  egressctl console berlin-1 --raw > console.log`

// consoleEvery is the time between two reads of a console that is followed.
const consoleEvery = time.Second

// consoleFlags are console's own.
type consoleFlags struct {
	follow, raw bool
	limit       time.Duration
}

func (r *runner) consoleCommand() *cobra.Command {
	f := &consoleFlags{}
	cmd := &cobra.Command{
		Use:               "console NAME",
		Short:             "Show the serial console of an instance",
		Long:              consoleHelp,
		Example:           consoleExample,
		Args:              oneName,
		ValidArgsFunction: r.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.follow && !cmd.Flags().Changed("timeout") {
				f.limit = 24 * time.Hour
			}
			ctx, cancel := r.limited(cmd, f.limit)
			defer cancel()
			return r.console(ctx, args[0], f)
		},
	}
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "go on with what is written from now on, until interrupted")
	cmd.Flags().BoolVar(&f.raw, "raw", false, "leave escape sequences and control characters in")
	cmd.Flags().DurationVar(&f.limit, "timeout", time.Minute, "give up after this `DURATION`; with --follow a day, unless it is given")
	return cmd
}

// consoleResult is what console prints for scripts.
type consoleResult struct {
	Name  string `json:"name"`
	Entry string `json:"entry"`
	ID    string `json:"id"`
	Text  string `json:"text"`
}

func (r *runner) console(ctx context.Context, name string, f *consoleFlags) (err error) {
	if f.follow && r.format.Structured() {
		return fail(CodeUsage, "--follow has no end, so it cannot be printed as %s", r.format)
	}
	t, err := r.open(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	consoler, ok := provider.As[provider.Consoler](t.provider)
	if !ok {
		return fail(CodeUsage, "%s: providers of type %s have no console", t.entry.Name, t.entry.Type)
	}
	rec, err := t.load(name)
	if err != nil {
		return err
	}
	inst, err := t.find(ctx, name, rec)
	if err != nil {
		return err
	}
	var kept bytes.Buffer
	out := r.Out
	if r.format.Structured() {
		out = &kept
	}
	if !f.raw {
		out = &output.Console{W: out}
	}
	if err := readConsole(ctx, consoler, inst.ID, out, f.follow); err != nil {
		return r.notRead(ctx, place{t.entry.Name, inst.Zone}, name, f, err)
	}
	if r.format.Structured() {
		return local(output.Structure(r.Out, r.format, consoleResult{name, t.entry.Name, inst.ID, kept.String()}))
	}
	return nil
}

// notRead says why a console was not read to its end. Ending a --follow is how it is meant to end.
func (r *runner) notRead(ctx context.Context, at place, name string, f *consoleFlags, err error) error {
	if interrupted(ctx) {
		return fail(CodeInterrupted, "interrupted")
	}
	if f.follow && ctx.Err() != nil {
		return nil //nolint:nilerr // it was followed until its time was up
	}
	return refused(at, "read the console of "+name, err)
}

// readConsole reads to the end of what is there, and goes on from there where it is followed. A host that
// does not answer for a while is waited for then.
func readConsole(ctx context.Context, c provider.Consoler, id string, out io.Writer, follow bool) error {
	var from int64
	for first := true; ; first = false {
		next, err := c.ReadConsole(ctx, id, from, out)
		switch {
		case err != nil && (first || !follow || ctx.Err() != nil || !errors.Is(err, provider.ErrTransient)):
			return err
		case err == nil && next != from:
			from = next
			continue
		case !follow:
			return nil
		}
		if err := sleep(ctx, consoleEvery); err != nil {
			return err
		}
	}
}

// sleep waits, or gives ctx's error when that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
