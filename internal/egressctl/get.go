package egressctl

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

const getHelp = `Show one instance as its host has it now, with what is recorded here of how it was made, and with
what cloud-init ended with where the guest tells.

With --show-password, a password that "create --generate-password" made is part of the proxy URL. It is
the only command that prints one. A password that you chose is not kept, only its hash.`

const getExample = `  egressctl get berlin-1
  egressctl get berlin-1 -o json | jq -r .state
  export https_proxy=$(egressctl get berlin-1 --show-password -o json | jq -r .proxyURL)`

func (r *runner) getCommand() *cobra.Command {
	var limit time.Duration
	var showPassword bool
	cmd := &cobra.Command{
		Use:               "get NAME",
		Short:             "Show one instance",
		Long:              getHelp,
		Example:           getExample,
		Args:              oneName,
		ValidArgsFunction: r.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := r.limited(cmd, limit)
			defer cancel()
			return r.get(ctx, args[0], showPassword)
		},
	}
	cmd.Flags().DurationVar(&limit, "timeout", time.Minute, "give up after this `DURATION`")
	cmd.Flags().BoolVar(&showPassword, "show-password", false, "put a generated password into the proxy URL")
	return cmd
}

func (r *runner) get(ctx context.Context, name string, showPassword bool) (err error) {
	t, err := r.open(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	rec, err := t.load(name)
	if err != nil {
		return err
	}
	inst, err := t.find(ctx, name, rec)
	if err != nil {
		return err
	}
	v := viewOf(t.entry.Name, inst, rec)
	v.Guest = t.askGuest(ctx, inst)
	if showPassword {
		if rec == nil || rec.Password == "" {
			return fail(CodeUsage, "%s: there is no password to show for %s: only one made by --generate-password is kept", t.entry.Name, name)
		}
		if v.Address != "" {
			v.ProxyURL = v.proxyURL(rec.Password)
		}
	}
	return r.printView(&v)
}

// askGuest asks a guest once what its cloud-init ended with; nil where it does not tell.
func (t *target) askGuest(ctx context.Context, inst provider.Instance) *provider.GuestReport {
	reporter, ok := provider.As[provider.GuestReporter](t.provider)
	if !ok || inst.State == provider.StateStopped {
		return nil
	}
	report, err := reporter.GuestReport(ctx, inst.ID)
	if err != nil || report.State == provider.GuestUnknown {
		return nil // the instance is what was asked for
	}
	return &report
}
