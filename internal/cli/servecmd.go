package cli

import (
	"github.com/spf13/cobra"
)

// serveCommand is "runnel serve".
func (i *invocation) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Serve MCP on stdin and stdout (runnel without a command does the same)",
		Example: "  # what a host starts\n  runnel serve --config runnel.yaml",
		Args:    noArguments,
		RunE:    i.serve,
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().AddFlagSet(i.flags)
	return cmd
}

// serve runs "runnel", "runnel serve" and "runnel wrap".
func (i *invocation) serve(cmd *cobra.Command, _ []string) error {
	return i.Serve(cmd.Context())
}
