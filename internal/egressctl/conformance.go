package egressctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/output"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/conformance"
)

const conformanceHelp = `Show, on a host of yours, that the provider keeps its contract there, before you trust it with proxies.

What it does to the host: it makes about 15 instances, one or two at a time, with names of their own (proxy-
<owner>-conformance-...), of the machine type and image that you name, and deletes each again. The base
image is transferred if the host does not have it, and stays. Nothing else on the host is touched, nothing is
made to fail, and no request is sent through an instance. It takes one to three minutes, and the time
of the image's transfer when it is the first.

It cleans up after itself, also when it is interrupted, for which it takes two minutes at most. What it could
not remove it names; egressctl list and egressctl delete do not know those, the host's own tools do.

It prints the contract's rules with how each went. What only faults or a look past the provider can show is
not shown here: the project's own tests show that, on libvirt in a lab. The exit code is 8 when a rule is
broken or could not be tried.`

const conformanceExample = `  egressctl conformance --entry kvm2-home --zone beelink
  egressctl conformance --entry kvm2-home -o json | jq '.results[] | select(.outcome == "failed")'`

func (r *runner) conformanceCommand() *cobra.Command {
	var limit time.Duration
	var at provider.Placement
	cmd := &cobra.Command{
		Use:     "conformance",
		Short:   "Show that a host and the provider keep the contract",
		Long:    conformanceHelp,
		Example: conformanceExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := r.limited(cmd, limit)
			defer cancel()
			return r.conformance(ctx, at)
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&limit, "timeout", 30*time.Minute, "give up after this `DURATION`, and clean up")
	flags.StringVar(&at.Zone, "zone", "", "the `HOST`; needed where the entry has several")
	flags.StringVar(&at.MachineType, "machine-type", "", "the machine `TYPE`; needed where the entry has several")
	flags.StringVar(&at.Image, "image", "", "the `IMAGE`; needed where the entry has several")
	return cmd
}

func (r *runner) conformance(ctx context.Context, at provider.Placement) error {
	conf, err := r.loadConfig()
	if err != nil {
		return err
	}
	dir, err := r.openState()
	if err != nil {
		return err
	}
	entry, err := conf.choose(r.entryName, func() []string { return nil })
	if err != nil {
		return err
	}
	if err := choicesOf(entry).complete(entry.Name, &at); err != nil {
		return err
	}
	owner, err := dir.Owner(ctx)
	if err != nil {
		return local(err)
	}
	axes, factory := r.Axes[entry.Type], r.Registry[entry.Type]
	if axes == nil || factory == nil {
		return fail(CodeUsage, "providers of type %s have no axis codes: the contract's rules cannot be chosen", entry.Type)
	}
	report, err := conformance.Prove(ctx, harnessOf(onlyHost(entry, at.Zone), owner, at, axes, factory), conformance.SafeOnly(),
		conformance.Title(fmt.Sprintf("%s, type %s, on %s", entry.Name, entry.Type, at.Zone)),
		conformance.Progress(func(c conformance.Case) { r.hint("%s", c.Name) }))
	if printErr := r.printConformance(report); printErr != nil {
		return printErr
	}
	switch {
	case len(report.Left) > 0:
		return fail(CodeTransient, "what was made could not be removed: %s", strings.Join(report.Left, "; "))
	case interrupted(ctx):
		return fail(CodeInterrupted, "interrupted; what was made is removed")
	case errors.Is(err, context.DeadlineExceeded):
		return fail(CodeTransient, "not ready in time; what was made is removed")
	case err != nil:
		return &failure{code: CodeOther, err: err}
	case !report.Green():
		return fail(CodeNotReady, "rules that are broken or could not be tried: %s",
			listing(append(report.With(conformance.Failed), report.With(conformance.Blocked)...)))
	}
	return nil
}

// onlyHost leaves one host in an entry: that another one is down says nothing of this one.
func onlyHost(entry provider.Entry, zone string) provider.Entry {
	if entry.KVM2 != nil {
		block := *entry.KVM2
		block.Hosts = slices.DeleteFunc(slices.Clone(block.Hosts), func(h provider.KVMHost) bool { return h.Name != zone })
		entry.KVM2 = &block
	}
	return entry
}

// instancePatience is how long one call may take: a transfer of the image, and a start.
const instancePatience = 25 * time.Minute

// harnessOf tries the provider of an entry with nothing but itself.
func harnessOf(entry provider.Entry, owner string, at provider.Placement, axes map[string]string, factory provider.Factory) conformance.NewHarness {
	return func(_ context.Context, s conformance.Setup) (*conformance.Harness, error) {
		p, err := factory(entry, provider.Options{Owner: owner, Log: s.Log})
		if err != nil {
			return nil, err
		}
		return &conformance.Harness{
			Provider: p, Name: entry.Name, Type: entry.Type, Owner: owner, Axes: axes, Zones: choicesOf(entry).zones,
			Patience: instancePatience,
			Request: func() provider.CreateRequest {
				const ref = refPrefix + "conformance"
				uid := uuid.New().String()
				return provider.CreateRequest{
					Name: provider.InstanceName(owner, ref, uid), UID: uid, Owner: owner, Ref: ref, Placement: at,
				}
			},
			Close: func() {
				if c, ok := provider.As[provider.Closer](p); ok {
					_ = c.Close() // the contract's own rule is that it succeeds
				}
			},
		}, nil
	}
}

func (r *runner) printConformance(report conformance.Report) error {
	if r.format.Structured() {
		return local(output.Structure(r.Out, r.format, report))
	}
	rows := make([][]string, 0, len(report.Results))
	for _, result := range report.Results {
		rows = append(rows, []string{result.Rule, string(result.Outcome), output.Clean(strings.Join(result.Notes, "; "))})
	}
	if err := output.Table(r.Out, []string{"RULE", "OUTCOME", "NOTES"}, rows); err != nil {
		return local(err)
	}
	_, err := fmt.Fprintf(r.Out, "\n%s: %s. %d instances were made and %d could not be removed.\n",
		report.Provider, report.Summary(), report.Made, len(report.Left))
	return local(err)
}
