package cli

import (
	"github.com/spf13/cobra"
)

// serveCommand is "runnel serve".
func (i *invocation) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve MCP on stdin and stdout (runnel without a command does the same)",
		Example: "  # what a host starts\n  runnel serve --config runnel.yaml\n\n  # another value for a " +
			"key of the config\n  runnel serve --set tasks.ttl=2h --set tools.test.timeout=10m",
		Long: `A flag wins over --set, which sets any key of the config (runnel help config lists them),
--set wins over the flag's variable of the environment (RUNNEL_SYNC_WAIT for --sync-wait), and the variable
wins over the config file.`,
		Args: noArguments,
		RunE: i.serve,
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().AddFlagSet(i.flags)
	return cmd
}

// serve runs "runnel", "runnel serve" and "runnel wrap".
func (i *invocation) serve(cmd *cobra.Command, _ []string) error {
	return i.Serve(cmd.Context())
}
