package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tools"
)

// callOptions are the flags of runnel call.
type callOptions struct {
	object    string
	task      bool
	noTask    bool
	mode      *chosen
	output    *chosen
	progress  *chosen
	timeout   time.Duration
	ask       bool
	yes       bool
	summary   bool
	protocol  *chosen
	detach    bool
	askGiven  bool
	arguments []string
}

const callExamples = `  # a tool of the config file, its output as it comes
  runnel call test packages=./rpc/... packages=./tasks

  # a tool of any MCP server
  runnel call echo message=hello -- npx -y @modelcontextprotocol/server-everything

  # arguments as JSON, one of them from a file; the result as JSON
  runnel call search --json '{"limit": 10}' pattern=@pattern.txt -o json | jq .structuredContent

  # start it, leave, and come back for it in any runnel with the same state
  runnel call test --detach

  # not longer than a minute, and no questions
  runnel call deploy host=web1 --timeout 1m --yes`

// callCommand is "runnel call". serve are the flags of serve.
func (i *invocation) callCommand(serve *pflag.FlagSet) *cobra.Command {
	o := &callOptions{
		mode:     choiceOf("", "immediate", "streaming", "task"),
		progress: choiceOf("auto", "always", "never"),
		protocol: choiceOfVersions(),
	}
	cmd := &cobra.Command{
		Use:   "call [flags] TOOL [KEY=VALUE...] [-- SERVER [ARGUMENT...]]",
		Short: "Call a tool and show its output as it arrives",
		Long: `Calls a tool of what runnel would serve with the same flags and config or, behind --, of any MCP server on stdin and
stdout. Its output goes to stdout as it arrives, progress and errors to stderr. Ctrl-C cancels the call and waits for its end, a
second one leaves.

A value is read as the tool's input schema says; KEY=@FILE is what the file holds, KEY=@@... begins with an @. An array takes one
element each time its key is given, or JSON.

Exit code: that of the command which the tool ran, where the result tells it; else 0, or 1 for an error. 2: wrong
arguments. 130: after Ctrl-C.`,
		Example: callExamples,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.askGiven = cmd.Flags().Changed("ask")
			own, server, err := splitServer(cmd, args)
			switch {
			case err != nil:
				return err
			case len(own) == 0:
				return &usageError{errors.New("runnel call: which tool?"), hint(cmd)}
			case o.detach && len(server) > 0:
				return &usageError{errors.New("runnel call: --detach is for runnel's own tools: a server behind -- ends with this call, and its tasks with it"), hint(cmd)}
			case o.detach && (o.noTask || o.mode.word != "" || o.protocol.word != "" || o.timeout > 0):
				return &usageError{errors.New("runnel call: --detach does not go with --no-task, --mode, --protocol or --timeout: it leaves when the task runs"), hint(cmd)}
			case o.noTask && (o.task || o.mode.word != ""):
				return &usageError{errors.New("runnel call: --no-task does not go with --task or --mode"), hint(cmd)}
			}
			if o.detach {
				i.detach, o.task = own[0], true
			}
			o.arguments = own[1:]
			return i.call(cmd, own[0], server, o)
		},
	}
	cmd.ValidArgsFunction = i.completeCall
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&o.object, "json", "", "arguments as a JSON `OBJECT`; key=value wins over it")
	flags.BoolVar(&o.task, "task", false, "call it as a task")
	flags.BoolVar(&o.noTask, "no-task", false, "call it plainly, not as a task")
	flags.Var(o.mode, "mode", "response `MODE` to ask for (SEP-1905): immediate, streaming, task")
	o.output = outputFlag(flags, "json (the result on one line)", "ndjson (every message received)")
	flags.Var(o.progress, "progress", "`WHEN` to show how it goes, on stderr: auto (on a terminal), always, never")
	flags.Var((*span)(&o.timeout), "timeout", "cancel the call after this `DURATION`; 0 = never")
	flags.BoolVar(&o.ask, "ask", false, "put the tool's questions on the terminal (the default when stdin is one)")
	flags.BoolVar(&o.yes, "yes", false, "accept the tool's questions, with the values they propose")
	flags.BoolVar(&o.summary, "summary", false, "tell on stderr at the end what came and how it compares with the result")
	flags.BoolVar(&o.detach, "detach", false, "start it as a task that goes on by itself (for tasks.maxTtl at the most), print the task's id and leave")
	flags.Var(o.protocol, "protocol", "protocol `VERSION` to speak; else the newest that both sides know")
	flags.AddFlagSet(serve)
	return cmd
}

// call calls a tool once.
func (i *invocation) call(cmd *cobra.Command, name string, server []string, o *callOptions) error {
	v := newView(i.stdout, i.stderr, o.progress.word, i.getenv("TERM"))
	defer v.end()
	select {
	case i.lastWords <- v.end:
	default: // no signal comes
	}
	stderr := i.stderr
	i.stderr = v
	defer func() { i.stderr = stderr }()
	v.say(name)

	c := newCall(i, v, o)
	dial := rpc.DialOptions{
		Version:        o.protocol.word,
		Capabilities:   c.capabilities,
		OnNotification: c.notified,
		OnMessage:      c.message,
	}
	if c.asks() {
		dial.OnRequest = c.request
	}
	if dial.Version == "" && (len(server) == 0 || o.task || o.mode.word != "") {
		// Only there a client says what is to be a task, and how; and output streams from the first byte on.
		dial.Version = mcp.NewestHandshake().Name
	}
	ctx := cmd.Context()
	if o.timeout > 0 {
		opening, stop := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("timed out after %v", o.timeout))
		defer stop()
		cmd.SetContext(opening)
	}
	disconnect, err := c.open(cmd, name, server, dial)
	switch {
	case err != nil && ctx.Err() != nil:
		return exitError(exitInterrupted)
	case err != nil:
		return err
	}
	defer disconnect()
	return c.run(ctx)
}

// open connects to the server, finds the tool, and makes the arguments of its call.
func (c *call) open(cmd *cobra.Command, name string, server []string, dial rpc.DialOptions) (disconnect func(), err error) {
	client, disconnect, err := c.i.dial(cmd, server, dial)
	if errors.As(err, new(*rpc.Error)) && c.o.protocol.word == "" && dial.Version != "" {
		// It does not take the handshake that was asked for because of its tasks: is it of the newer era only?
		dial.Version = ""
		var later error
		if client, disconnect, later = c.i.dial(cmd, server, dial); later == nil {
			err = nil
		}
	}
	if err != nil {
		return nil, err
	}
	c.client = client
	if err := c.find(cmd.Context(), name, server); err != nil {
		disconnect()
		return nil, err
	}
	return disconnect, nil
}

// find finds the tool, among those of runnel itself where no server is named, and makes the arguments of its call.
func (c *call) find(ctx context.Context, name string, server []string) error {
	list, err := tools.ListTools(ctx, c.client)
	if err != nil {
		return err
	}
	if len(list) == 0 && len(server) == 0 {
		return fmt.Errorf("there is no tool %q: name some with --tool or in a config file", name)
	}
	if c.tool, err = findTool(list, name); err != nil {
		return err
	}
	if c.arguments, err = parseArguments(c.tool.InputSchema, c.o.arguments, c.o.object); err != nil {
		return &usageError{err, fmt.Sprintf("the arguments of %s are: %s", name, cmp.Or(usageOf(c.tool), "none"))}
	}
	return nil
}

// usageOf is how the arguments of a tool are written, "" if it has none.
func usageOf(tool *mcp.Tool) string {
	var usage []string
	for _, p := range readSchema(tool.InputSchema).properties {
		usage = append(usage, p.usage())
	}
	return strings.Join(usage, " ")
}
