package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"runnel/internal/serve"
	"runnel/internal/term"
	"runnel/rpc/mcp"
)

// toolsCommand is "runnel tools".
func (i *invocation) toolsCommand() *cobra.Command {
	var output *serve.Choice
	protocol := choiceOfVersions()
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "tools [flags] [NAME] [-- SERVER [ARGUMENT...] | --url URL]",
		Short: "List the tools, or show one with its arguments",
		Long: `Lists the tools that runnel serves with the same flags and config. With a NAME it shows that
tool: what it does, its arguments, and how to call it. To see the tools of another MCP server, give the
server's command after -- if it speaks on stdin and stdout, or its --url if it speaks Streamable HTTP.`,
		Example: `  # which tools are there?
  runnel tools

  # what does one of them do, and how is it called?
  runnel tools test

  # the tools of another server
  runnel tools -- npx -y @modelcontextprotocol/server-everything

  # their names, for a script
  runnel tools -o ndjson | jq -r .name`,
		RunE: func(cmd *cobra.Command, args []string) error {
			own, err := i.splitServer(cmd, args)
			if err == nil {
				err = atMostOne(cmd, own)
			}
			if err != nil {
				return err
			}
			if timeout > 0 {
				ctx, stop := context.WithTimeoutCause(cmd.Context(), timeout,
					fmt.Errorf("timed out after %v", timeout))
				defer stop()
				cmd.SetContext(ctx)
			}
			if len(own) > 0 {
				tool, err := i.askForTool(cmd, own[0], protocol.Word)
				switch {
				case err != nil:
					return err
				case output.Word != "text":
					return writeJSON(i.Stdout, tool)
				}
				return i.printTool(tool)
			}
			list, err := i.listTools(cmd, protocol.Word)
			if err != nil {
				return err
			}
			// A config without trust was named before; runnel's own tools may be listed.
			untrusted := i.target.isSelf() && i.Untrusted() && i.Tools+i.Upstreams+i.Classes == 0
			switch output.Word {
			case "json":
				// An empty list is [], not null.
				err = writeJSON(i.Stdout, mcp.ListToolsResult{Tools: append([]mcp.Tool{}, list...)})
			case "ndjson":
				err = writeLines(i.Stdout, list)
			default:
				err = i.printTools(list)
			}
			switch {
			case err != nil:
				return err
			case untrusted:
				return exitError(exitFailure)
			case len(list) > 0 || output.Word != "text":
			case !i.target.isSelf():
				i.Say(zerolog.InfoLevel, "the server has no tools")
			case i.Upstreams > 0:
				i.Say(zerolog.InfoLevel, "no tools yet: a server of upstreams has not answered. Try again "+
					"in a moment; runnel doctor says what it answers")
			case i.Classes > 0:
				i.Say(zerolog.InfoLevel, "no tools: no worker of the config's classes announces any; "+
					"runnel fleet shows which workers there are")
			default:
				i.Say(zerolog.InfoLevel,
					"no tools: name one with --tool, or let runnel init propose a runnel.yaml")
			}
			return nil
		},
	}
	cmd.ValidArgsFunction = i.completeTool
	cmd.Flags().SortFlags = false
	output = outputFlag(cmd.Flags(), "json (the list on one line)", "ndjson (a tool on each line)")
	durationFlag(cmd.Flags(), &timeout, "timeout", "give up after this `DURATION`; 0 = never")
	cmd.Flags().Var(protocol, "protocol",
		"speak this `VERSION` of the protocol; else the newest that both sides know")
	i.target.addFlags(cmd.Flags())
	i.addServeFlags(cmd.Flags(), "config", "tool", "selftest", "set", "state", "owner")
	return cmd
}

// printTools lists the names and descriptions of tools, on a terminal cut to its width.
func (i *invocation) printTools(list []mcp.Tool) error {
	var rows [][]string
	for _, tool := range list {
		first, _, _ := strings.Cut(cmp.Or(strings.TrimSpace(tool.Description), tool.Title), "\n")
		rows = append(rows, []string{tool.Name, first})
	}
	if err := term.PrintLines(i.Stdout, term.Table(rows)); err != nil || len(list) == 0 {
		return err
	}
	if term.IsTerminal(i.Stdout) {
		i.Say(zerolog.InfoLevel, "\nrunnel tools NAME shows the arguments of one, runnel call NAME calls it.")
	}
	return nil
}

// printTool shows a tool to a person who is about to call it.
func (i *invocation) printTool(tool *mcp.Tool) error {
	var b strings.Builder
	title := tool.Title
	if title == "" && tool.Annotations != nil {
		title = tool.Annotations.Title
	}
	b.WriteString(term.Printable(tool.Name))
	if title != "" && title != tool.Name {
		b.WriteString(": " + term.Printable(title))
	}
	b.WriteByte('\n')
	if text := strings.TrimSpace(tool.Description); text != "" {
		b.WriteByte('\n')
		for line := range strings.Lines(text) {
			b.WriteString(term.Printable(strings.TrimRight(line, "\r\n")) + "\n")
		}
	}
	form := term.ReadForm(tool.InputSchema)
	words := []string{tool.Name}
	for _, p := range form {
		words = append(words, p.Usage())
	}
	call := "runnel call " + term.Quote(words...) + i.target.words()
	fmt.Fprintf(&b, "\nCall it:\n  %s\n", call)
	if len(form) > 0 {
		b.WriteString("\nArguments:\n")
		var rows [][]string
		for _, p := range form {
			rows = append(rows, []string{"  " + strings.Trim(p.Usage(), "[]"), p.About()})
		}
		b.WriteString(term.Table(rows))
	}
	_, err := io.WriteString(i.Stdout, b.String())
	return err
}

// helpWithTool is the help of "runnel call TOOL".
func (i *invocation) helpWithTool(cmd *cobra.Command, name string) error {
	tool, err := i.askForTool(cmd, name, "")
	if err == nil {
		err = i.printTool(tool)
	}
	if err == nil {
		_, err = io.WriteString(i.Stdout, "\nThe flags of runnel call: see runnel call --help\n")
	}
	return err
}
