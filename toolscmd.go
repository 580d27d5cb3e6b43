package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tools"
)

// toolsCommand is "runnel tools". serve are the flags of serve.
func (i *invocation) toolsCommand(serve *pflag.FlagSet) *cobra.Command {
	var output *chosen
	protocol := choiceOfVersions()
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "tools [flags] [-- SERVER [ARGUMENT...]]",
		Short: "List the tools of a server and their arguments",
		Long:  "Lists the tools that runnel would serve with the same flags and config or, behind --, those of any MCP server on stdin and stdout.",
		Example: `  runnel tools --selftest
  runnel tools --config runnel.yaml
  runnel tools -- npx -y @modelcontextprotocol/server-everything
  runnel tools --selftest -o json | jq -r '.tools[].name'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			own, server, err := splitServer(cmd, args)
			if err == nil {
				err = noArguments(cmd, own)
			}
			if err != nil {
				return err
			}
			if timeout > 0 {
				ctx, stop := context.WithTimeoutCause(cmd.Context(), timeout, fmt.Errorf("timed out after %v", timeout))
				defer stop()
				cmd.SetContext(ctx)
			}
			client, close, err := i.dial(cmd, server, rpc.DialOptions{
				Version:      protocol.word,
				Capabilities: canTasks(),
			})
			if err != nil {
				return err
			}
			defer close()
			list, err := tools.ListTools(cmd.Context(), client)
			if err != nil {
				return err
			}
			switch output.word {
			case "json":
				return i.writeJSON(mcp.ListToolsResult{Tools: append([]mcp.Tool{}, list...)}) // not null
			case "ndjson":
				return writeLines(i, list)
			}
			if len(list) == 0 && len(server) == 0 {
				i.say(zerolog.InfoLevel, "no tools: name some with --tool or in a config file")
			} else if len(list) == 0 {
				i.say(zerolog.InfoLevel, "the server has no tools")
			}
			return i.printTools(list)
		},
	}
	cmd.Flags().SortFlags = false
	output = outputFlag(cmd.Flags(), "json (the list on one line)", "ndjson (a tool on each line)")
	cmd.Flags().Var((*span)(&timeout), "timeout", "give up after this `DURATION`; 0 = never")
	cmd.Flags().Var(protocol, "protocol", "protocol `VERSION` to speak; else the newest that both sides know")
	cmd.Flags().AddFlagSet(serve)
	return cmd
}

// canTasks is what a client can do that wants no fallback tools in the list: they are for those without tasks.
func canTasks() mcp.ClientCapabilities {
	return mcp.ClientCapabilities{Tasks: &mcp.ClientTasks{}, Extensions: map[string]any{mcp.ExtensionTasks: struct{}{}}}
}

func (i *invocation) printTools(list []mcp.Tool) error {
	table := tabwriter.NewWriter(i.stdout, 0, 0, 2, ' ', 0)
	for _, tool := range list {
		first, _, _ := strings.Cut(strings.TrimSpace(tool.Description), "\n")
		if first == "" {
			first = tool.Title
		}
		if _, err := fmt.Fprintf(table, "%s\t%s\t%s\n", printable(tool.Name), usageOf(&tool), shorten(printable(first))); err != nil {
			return err
		}
	}
	return table.Flush()
}

// choiceOfVersions takes a version of the protocol; "" is the newest that both sides know.
func choiceOfVersions() *chosen {
	words := []string{""}
	for _, v := range mcp.Versions {
		words = append(words, v.Name)
	}
	return choiceOf(words...)
}
