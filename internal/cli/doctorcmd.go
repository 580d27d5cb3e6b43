package cli

import (
	"context"

	"github.com/spf13/cobra"

	"runnel/internal/doctor"
	"runnel/rpc"
)

// doctorCommand is "runnel doctor".
func (i *invocation) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor [HOST... | -- SERVER [ARGUMENT...] | --url URL]",
		Short: "Check that runnel can work here: config, commands, other servers, state, a session",
		Long: `Checks the config file and the state, looks for the commands of the tools, starts each server
under "upstreams" and shows its answer, and holds a short session with itself in each era of the protocol.
Give it the flags that the host gives runnel, and it checks what the host would get. The exit code is 1 if
something is wrong.

With a HOST, such as claude-code, it starts runnel as that host's file says (see runnel install).

With another server, by its command after -- or its --url, it checks that server only, in each era of the
protocol.

What a host can do is in the record that "runnel trace" writes of its session.`,
		Example: `  runnel doctor
  runnel doctor --config runnel.yaml

  # would these hosts start runnel?
  runnel doctor claude-code codex

  # does another server start, and which versions of the protocol does it speak?
  runnel doctor -- npx -y @modelcontextprotocol/server-everything
  runnel doctor --url https://mcp.example.com/mcp --header 'Authorization: Bearer ${TOKEN}'`,
		ValidArgsFunction: completeHosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			hosts, err := i.splitServer(cmd, args)
			if err == nil {
				err = checkHosts(cmd, hosts)
			}
			if err != nil {
				return err
			}
			d := doctor.Doctor{Setup: &i.Setup}
			switch {
			case len(hosts) > 0 && !i.target.isSelf():
				return misuse(cmd, "runnel doctor: it checks hosts or a server, not both")
			case len(hosts) > 0:
				d.Hosts(cmd.Context(), hosts)
			case !i.target.isSelf():
				_, dial, err := i.server(cmd)
				if err != nil {
					return err
				}
				d.Server(cmd.Context(), func(ctx context.Context, o rpc.DialOptions) (*rpc.Client, error) {
					o.Capabilities = canTasks
					return dial(ctx, o)
				})
			default:
				d.Here(cmd.Context())
			}
			wrong, err := d.Verdict()
			if err == nil && wrong > 0 {
				return exitError(exitFailure)
			}
			return err
		},
	}
	cmd.Flags().SortFlags = false
	i.target.addFlags(cmd.Flags())
	cmd.Flags().Lookup("url").Usage = "check only the server at this `URL`, over Streamable HTTP"
	cmd.Flags().AddFlagSet(i.flags)
	return cmd
}
