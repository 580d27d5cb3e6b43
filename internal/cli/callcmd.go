package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"runnel/internal/pause"
	"runnel/internal/serve"
	"runnel/internal/term"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tools/remote"
	"runnel/tools/schema"
)

const callExamples = `  # a tool of the config file; its output comes as it is written
  runnel call test packages=./rpc/... packages=./tasks

  # which arguments does it take?
  runnel call test --help

  # a tool of any other MCP server
  runnel call echo message=hello -- npx -y @modelcontextprotocol/server-everything

  # one of a server at a URL
  runnel call search q=mcp --url https://example.com/mcp --header 'Authorization: Bearer ${TOKEN}'

  # arguments as JSON, one of them from a file; the result as JSON
  runnel call search --input '{"limit": 10}' pattern=@pattern.txt -o json | jq -r '.content[0].text'

  # no longer than a minute, and yes to all questions
  runnel call deploy host=web1 --timeout 1m --yes

  # start it, leave, and come back for it
  id=$(runnel call test --detach); runnel tasks result "$id"`

// callCommand is "runnel call".
func (i *invocation) callCommand() *cobra.Command {
	o := &callOptions{
		mode:     serve.OneOf("", "immediate", "streaming", "task"),
		progress: serve.OneOf("auto", "always", "never"),
		protocol: choiceOfVersions(),
	}
	cmd := &cobra.Command{
		Use:   "call [flags] TOOL [KEY=VALUE...] [-- SERVER [ARGUMENT...] | --url URL]",
		Short: "Call a tool and show its output as it arrives",
		Long: `Calls a tool that runnel serves with the same flags and config. To call a tool of another MCP
server, give the server's command after -- if it speaks on stdin and stdout, or its --url if it speaks
Streamable HTTP. Output goes to stdout as it arrives; progress and errors go to stderr.

An argument is KEY=VALUE. KEY=@FILE takes the content of a file, KEY=@- that of stdin (KEY=@@x is the text
@x). Give a KEY several times to fill an array, or give the array as JSON. "runnel call TOOL --help" shows
which arguments a tool takes.

Ctrl-C cancels the call and waits until it has ended; a second Ctrl-C leaves without waiting.

The exit code is that of the tool's command, if the result has one; else 0, or 1 for an error. 124 means
that it timed out, 127 that its program is not there, 128 and more that a signal ended it, 2 wrong flags or
arguments, 130 that Ctrl-C ended the call (143: SIGTERM), and 141 that the reader of the output has closed,
as with head: the call is cancelled then. The other flags of runnel serve work here, too.`,
		Example: callExamples,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.askGiven = cmd.Flags().Changed("ask")
			own, err := i.splitServer(cmd, args)
			switch {
			case err != nil:
				return err
			case len(own) == 0:
				return misuse(cmd, "runnel call: name a tool; runnel tools lists them")
			case o.detach && !i.target.isSelf():
				return misuse(cmd, "runnel call: --detach is for runnel's own tools: another server ends "+
					"with this call, and its tasks may end with it")
			case o.detach && (o.noTask || o.mode.Word != "" || o.protocol.Word != "" || o.timeout > 0):
				return misuse(cmd, "runnel call: --detach does not go with --no-task, --mode, --protocol "+
					"or --timeout: it leaves as soon as the task runs")
			case o.detach && o.artifacts != "":
				return misuse(cmd, "runnel call: --detach does not go with --artifacts: there are no "+
					"files yet when it leaves")
			case o.noTask && (o.task || o.mode.Word != ""):
				return misuse(cmd, "runnel call: --no-task does not go with --task or --mode")
			}
			if o.detach {
				i.Detach, o.task = own[0], true
			}
			if i.target.isSelf() {
				i.Only, i.NeedsState = own[0], !o.noTask
			}
			o.arguments = own[1:]
			return i.call(cmd, own[0], o)
		},
	}
	cmd.ValidArgsFunction = i.completeCall
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		var own []string
		err := i.readEnvironment(cmd, false)
		if err == nil {
			own, err = i.splitServer(cmd, cmd.Flags().Args())
		}
		if err != nil || len(own) == 0 {
			i.help(cmd, args)
			return
		}
		i.unwritten = i.helpWithTool(cmd, own[0])
	})
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&o.object, "input", "",
		"arguments as a JSON `OBJECT`, or @FILE or @- that has it; KEY=VALUE wins over it")
	flags.BoolVar(&o.task, "task", false, "call it as a task, or fail")
	flags.BoolVar(&o.noTask, "no-task", false, "call it without a task")
	flags.Var(o.mode, "mode", "ask for the response `MODE` immediate, streaming or task (SEP-1905)")
	o.output = outputFlag(flags, "json (the result on one line)", "ndjson (every message received)")
	flags.Var(o.progress, "progress",
		"`WHEN` to show progress on stderr: auto (on a terminal), always, never")
	durationFlag(flags, &o.timeout, "timeout", "cancel the call after this `DURATION`; 0 = never")
	flags.BoolVar(&o.ask, "ask", false, "ask you the tool's questions (the default on a terminal)")
	flags.BoolVar(&o.yes, "yes", false, "accept the tool's questions, with the values that it proposes")
	flags.BoolVar(&o.summary, "summary", false, "at the end, say on stderr how much output came and when")
	flags.StringVar(&o.artifacts, "artifacts", "", "save the files that the result links to below `DIR`")
	flags.BoolVar(&o.detach, "detach", false,
		"start it as a task that runs on without this process, print its id and leave")
	flags.Var(o.protocol, "protocol",
		"speak this `VERSION` of the protocol; else the newest that both sides know")
	i.target.addFlags(flags)
	i.addServeFlags(flags, "config", "tool", "selftest", "set", "state", "owner", "notify")
	return cmd
}

// call calls a tool once.
func (i *invocation) call(cmd *cobra.Command, name string, o *callOptions) error {
	v := term.NewView(i.Stdout, i.Stderr, o.progress.Word, i.Getenv)
	defer v.End()
	select {
	case i.lastWords <- v.End:
	default: // no signal comes
	}
	i.Stderr = v // for good: the word about a signal may still be written when the call has ended
	v.Say(name)

	ctx := cmd.Context()
	wanted, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	if o.timeout > 0 {
		var stop context.CancelFunc
		wanted, stop = context.WithTimeoutCause(wanted, o.timeout,
			fmt.Errorf("timed out after %v", o.timeout))
		defer stop()
	}
	cmd.SetContext(wanted)
	i.Colors = o.output.Word == "text" && v.Colors()
	c := newCall(i, v, o, giveUp)
	dial := rpc.DialOptions{
		Version:        o.protocol.Word,
		Capabilities:   c.capabilities,
		OnNotification: c.notified,
		OnMessage:      c.message,
	}
	if c.asks() {
		dial.OnRequest = c.request
	}
	if dial.Version == "" && i.target.url == "" && (i.target.isSelf() || o.task || o.mode.Word != "") {
		// Only in the handshake era can a client ask for a task and its mode, and output streams from the
		// first byte on.
		dial.Version = mcp.NewestHandshake().Name
	}
	disconnect, err := c.connect(cmd, dial)
	if err == nil {
		defer disconnect()
		err = c.find(cmd.Context(), name)
	}
	if err == nil {
		err = c.run(ctx, wanted)
	}
	return c.ending(ctx, wanted, err)
}

// connect connects to the server.
func (c *call) connect(cmd *cobra.Command, dial rpc.DialOptions) (disconnect func(), err error) {
	c.client, disconnect, err = c.i.dial(cmd, dial)
	if errors.As(err, new(*rpc.Error)) && c.o.protocol.Word == "" && dial.Version != "" {
		// It does not know the handshake, which was only tried because of its tasks: it may speak the newer
		// era alone.
		dial.Version = ""
		if client, disconnect, err := c.i.dial(cmd, dial); err == nil {
			c.client = client
			return disconnect, nil
		}
	}
	return disconnect, err
}

// readStdin reads all of stdin. The read stays until the process ends if ctx ends first.
func readStdin(ctx context.Context, stdin io.Reader) ([]byte, error) {
	type read struct {
		text []byte
		err  error
	}
	done := make(chan read, 1)
	go func() {
		text, err := io.ReadAll(io.LimitReader(stdin, maxArgument))
		done <- read{text, err}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// find finds the tool and builds the arguments of the call.
func (c *call) find(ctx context.Context, name string) error {
	list, err := remote.ListTools(ctx, c.client)
	if err != nil {
		return err
	}
	if c.tool, err = c.i.findTool(list, name); err != nil {
		if slices.ContainsFunc(c.o.arguments,
			func(word string) bool { return !strings.Contains(word, "=") }) {
			err = fmt.Errorf("%w\nif it is a tool of another server, put -- before that server's command: "+
				"runnel call %s -- %s", err, term.Quote(name), term.Quote(c.o.arguments...))
		}
		return err
	}
	form := term.ReadForm(c.tool.InputSchema)
	c.arguments, err = parseArguments(form, c.o.arguments, c.o.object,
		sync.OnceValues(func() ([]byte, error) { return readStdin(ctx, c.i.Stdin) }))
	if err == nil && c.i.target.isSelf() {
		// A schema that cannot be read is left to the server, whose answer says so.
		if input := schema.New(c.tool.InputSchema, ""); input.Compile() == nil {
			_, err = input.Fit(c.arguments)
		}
	}
	if err != nil {
		return &serve.UsageError{Err: err,
			Hint: fmt.Sprintf("the arguments of %s are: %s", name, cmp.Or(form.Usage(), "none"))}
	}
	return nil
}

// detachPoll is how often a call checks whether its task is detached yet: the user may have to confirm it
// first.
const detachPoll = 50 * time.Millisecond

// endedBefore is the exit code of a task that ended before it was detached: its program is not there, say.
func endedBefore(ctx context.Context, client *rpc.Client, id mcp.TaskParams) int {
	var r mcp.CallToolResult
	if client.Call(ctx, "tasks/result", id, &r) == nil {
		if err := exitOf(&r); err != nil {
			return exitCodeOf(err)
		}
	}
	return exitFailure
}

// detach calls a tool as a task and returns the task's id once it runs on without this process.
func detach(wanted context.Context, client *rpc.Client, tool string,
	arguments json.RawMessage) (string, error) {
	ctx := context.WithoutCancel(wanted) // an interrupted call must still learn which task to cancel
	var handle mcp.CreateTaskResult
	err := client.Call(ctx, "tools/call", map[string]any{
		"name": tool, "arguments": arguments,
		// The ttl is the longest that the server allows, since no client waits for the task.
		"task": mcp.TaskMetadata{TTL: json.RawMessage("null")},
	}, &handle)
	if err != nil {
		return "", fmt.Errorf("%s: %w", tool, err)
	}
	id := mcp.TaskParams{TaskID: handle.Task.TaskID}
	for {
		var t struct {
			mcp.Task
			Meta struct {
				Detached bool `json:"runnel/detached"`
			} `json:"_meta"`
		}
		if err := client.Call(ctx, "tasks/get", id, &t); err != nil {
			return "", fmt.Errorf("%s: %w", tool, err)
		}
		switch {
		case wanted.Err() != nil:
			return "", errors.Join(context.Cause(wanted), client.Call(ctx, "tasks/cancel", id, nil))
		case t.Meta.Detached:
			return t.TaskID, nil
		case t.Status.Terminal():
			return "", &failure{fmt.Errorf("%s: %s", tool, t.StatusMessage), endedBefore(ctx, client, id)}
		}
		pause.For(wanted, detachPoll)
	}
}
