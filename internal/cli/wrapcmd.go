package cli

import (
	"time"

	"github.com/spf13/cobra"

	"runnel/tools/config"
)

// wrapCommand is "runnel wrap".
func (i *invocation) wrapCommand() *cobra.Command {
	var hungAfter time.Duration
	cmd := &cobra.Command{
		Use:   "wrap [flags] (-- SERVER [ARGUMENT...] | --url URL)",
		Short: "Serve another MCP server, with tasks, streaming and everything else that runnel adds",
		Long: `Serves another MCP server: its tools run as tasks, and everything else is passed on. The
server starts when it is first needed. Its lists are kept with the tasks, so that the next runnel can answer
at once. --url names a server that speaks Streamable HTTP, for a host that only starts programs.

wrap reads only a config file that --config names. The tools of that file are served beside those of the
server.`,
		Example: `  runnel wrap -- npx -y @modelcontextprotocol/server-everything
  runnel wrap --sync-wait 100s --fallback-tools always -- uvx mcp-server-git
  runnel wrap --url https://mcp.example.com/mcp --header 'Authorization: Bearer ${TOKEN}'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := i.needServer(cmd, args); err != nil {
				return err
			}
			headers, err := i.headers()
			if err != nil {
				return misuse(cmd, "%w", err)
			}
			i.Wrapped = &config.Upstream{Command: i.target.command, URL: i.target.url, Headers: headers,
				HungAfter: new(config.Duration(hungAfter))}
			return i.serve(cmd, nil)
		},
	}
	cmd.Flags().SortFlags = false
	i.target.addFlags(cmd.Flags())
	cmd.Flags().DurationVar(&hungAfter, "hung-after", 0,
		"stop and restart the server if a call is silent and a ping stays unanswered for `DURATION`; 0 = never")
	own := *i.flags.Lookup("config")
	own.Usage = "read settings and further tools from `FILE`"
	cmd.Flags().AddFlag(&own)
	cmd.Flags().AddFlagSet(i.flags)
	return cmd
}
