package egressctl

import (
	"regexp"

	"github.com/spf13/cobra"
)

// instanceName is what a user may call an instance: a DNS label.
var instanceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

func checkName(name string) error {
	if !instanceName.MatchString(name) {
		return fail(CodeUsage, "%q cannot be a name: at most 63 lower-case letters, digits and '-', no '-' at either end", name)
	}
	return nil
}

// oneName is the argument rule of the commands for one instance.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fail(CodeUsage, "%s takes the name of one instance, for example %q", cmd.CommandPath(), cmd.CommandPath()+" berlin-1")
	}
	return checkName(args[0])
}
