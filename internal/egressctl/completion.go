package egressctl

import (
	"github.com/spf13/cobra"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/output"
)

// completeFlags teaches the shell the values of the global flags, and of the placement flags.
func (r *runner) completeFlags(root *cobra.Command) {
	formats := make([]string, 0, len(output.Formats))
	for _, f := range output.Formats {
		formats = append(formats, string(f))
	}
	complete(root, "output", func() []string { return formats })
	complete(root, "entry", r.entryNames)
	for _, cmd := range root.Commands() {
		complete(cmd, "zone", func() []string { return r.chosen().zones })
		complete(cmd, "machine-type", func() []string { return r.chosen().machineTypes })
		complete(cmd, "image", func() []string { return r.chosen().images })
	}
}

// complete offers values for a flag, where cmd has it.
func complete(cmd *cobra.Command, flag string, values func() []string) {
	if cmd.Flag(flag) == nil {
		return
	}
	// The only error is a flag that has its values already.
	_ = cmd.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return values(), cobra.ShellCompDirectiveNoFileComp
	})
}

// completeNames offers the recorded instances.
func (r *runner) completeNames(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	dir, err := r.openState()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	records, _ := dir.List() // what can be read is worth offering
	var out []string
	for _, rec := range records {
		if r.entryName == "" || rec.Entry == r.entryName {
			out = append(out, rec.Name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func (r *runner) entryNames() []string {
	conf, err := r.loadConfig()
	if err != nil {
		return nil
	}
	return conf.names()
}

// chosen gives the choices of the entry that the command line names so far.
func (r *runner) chosen() choices {
	conf, err := r.loadConfig()
	if err != nil {
		return choices{}
	}
	entry, err := conf.choose(r.entryName, func() []string { return nil })
	if err != nil {
		return choices{}
	}
	return choicesOf(entry)
}
