package egressctl

import (
	"fmt"

	"github.com/spf13/cobra"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/output"
)

func (r *runner) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if r.format.Structured() {
				return local(output.Structure(r.Out, r.format, map[string]string{"version": r.Version}))
			}
			_, err := fmt.Fprintln(r.Out, r.Version)
			return local(err)
		},
	}
}
