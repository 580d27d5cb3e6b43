package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"runnel/internal/serve"
	"runnel/internal/term"
	"runnel/internal/top"
	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
)

// topCommand is "runnel top".
func (i *invocation) topCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the tasks of all hosts on a screen, follow their output, cancel them",
		Long: `Shows the running tasks with the last line of each, and below them those that ended last: the
tasks of "runnel tasks list", updated every second. Keys: up and down (or k and j) select a task, Enter
follows its output (/ searches), c cancels it, r runs it again, a answers what it asks, ? shows all keys, q
leaves; the tasks go on. In the table, / shows those with some text, ! those that failed, t and h those of
the selected one's tool or host, Esc all. "Run again" runs a task here, with the tools of this config, until
this screen is left. From 120 columns on there are hosts and arguments. DONE is how far a task is, if its
tool reports that, or if its last line shows it, as in 40% or [4/10]. NO_COLOR=1 turns colours off.`,
		Example: `  runnel top

  # the tasks of all machines that share a state
  runnel top --state nats://HOST:4222`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			in, isFile := i.Stdin.(*os.File)
			out, isTerminal := i.Stdout.(*os.File)
			if !isFile || !isTerminal || !term.IsTerminal(in) || !term.IsTerminal(out) ||
				i.Getenv("TERM") == "dumb" {
				return misuse(cmd, "runnel top: it needs a terminal for input and output; runnel tasks "+
					"list prints the tasks")
			}
			held := &held{}
			if term.IsTerminal(i.Stderr) { // the same terminal: words would be drawn over
				defer func(to io.Writer) { held.pass(to) }(i.Stderr)
				i.Stderr = held
			}
			l, err := i.findLocal(cmd)
			if err == nil {
				err = l.open()
			}
			if err != nil && !errors.Is(err, errNoState) {
				return err
			}
			defer l.close()
			s := &source{local: l}
			defer s.close()
			err = top.Run(cmd.Context(), top.Options{
				Source: s, Where: l.where(), In: in, Out: out,
				Colors: i.Getenv("NO_COLOR") == "",
				Begun: func(leave func()) {
					select {
					case i.lastWords <- leave:
					default: // no signal comes
					}
				},
			})
			if cmd.Context().Err() != nil {
				return interrupted(cmd.Context())
			}
			return err
		},
	}
	cmd.Flags().SortFlags = false
	i.addSettings(cmd.Flags(), "tool", "selftest")
	return cmd
}

// source adapts local to top.Source.
type source struct {
	local     *local
	arguments map[string]json.RawMessage // of the tasks that were listed last; owned by List

	mu         sync.Mutex  // held while the server starts
	client     *rpc.Client // of the server that runs tasks again; nil before the first one
	disconnect func()
}

// Again starts a server in this process for the first task that is run again.
func (s *source) Again(ctx context.Context, id string) (t tasks.Task, err error) {
	if t, err = s.local.runner.Head(ctx, id); err != nil {
		return t, err
	}
	if t.Arguments == nil {
		return t, errors.New("its arguments were not kept")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		o := rpc.DialOptions{
			Version: mcp.NewestHandshake().Name, Capabilities: canTasks, Log: s.local.i.Logger(),
			Info: mcp.Implementation{Name: "runnel", Version: serve.Version()},
		}
		if s.client, s.disconnect, err = s.local.i.Dial(ctx, o); err != nil {
			return t, err
		}
	}
	var handle mcp.CreateTaskResult
	call := map[string]any{"name": t.Tool, "arguments": t.Arguments, "task": mcp.TaskMetadata{}}
	if err := s.client.Call(ctx, "tools/call", call, &handle); err != nil {
		return t, err
	}
	return s.local.runner.Head(ctx, handle.Task.TaskID)
}

// close ends what was run again.
func (s *source) close() {
	if s.client != nil {
		s.disconnect()
	}
}

const (
	// maxListedArguments is the length up to which arguments are listed, in bytes.
	maxListedArguments = 2 << 10
	// argumentsAtOnce is for how many tasks one list reads the arguments, the newest first: lists of a state
	// do not have them, and they do not change.
	argumentsAtOnce = 500
)

func (s *source) List(ctx context.Context) ([]tasks.Task, error) {
	list, err := s.local.await(ctx, all)
	known := make(map[string]json.RawMessage, len(list))
	for n, read := len(list)-1, 0; n >= 0; n-- {
		t := &list[n]
		arguments, found := s.arguments[t.ID]
		if !found && read < argumentsAtOnce {
			read++
			if head, err := s.local.runner.Head(ctx, t.ID); err == nil { // else it is listed without them
				arguments, found = head.Arguments, true
			}
			if len(arguments) > maxListedArguments {
				arguments = nil
			}
		}
		if t.Arguments = arguments; found {
			known[t.ID] = arguments
		}
	}
	s.arguments = known
	return list, err
}

// The others are about a task of the list: the state is open.

func (s *source) Head(ctx context.Context, id string) (tasks.Task, error) {
	return s.local.runner.Head(ctx, id)
}

func (s *source) Tail(
	ctx context.Context, id string, after int64, follow bool, write func(partials.Batch) error,
) (tasks.Task, error) {
	return s.local.runner.Tail(ctx, id, after, follow, write)
}

func (s *source) Cancel(ctx context.Context, id string) (tasks.Task, error) {
	return s.local.runner.Cancel(ctx, id)
}

func (s *source) Question(ctx context.Context, id string) (question string, yesOrNo bool, err error) {
	_, params, release, err := s.local.question(ctx, id)
	if err != nil {
		return "", false, err
	}
	defer release()
	return params.Message, fieldsOf(params.RequestedSchema) == "", nil
}

func (s *source) Answer(ctx context.Context, id, question string, yes bool) error {
	q, params, release, err := s.local.question(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	if params.Message != question {
		return fmt.Errorf("not answered: task %s asks something else now", id)
	}
	answer := mcp.ElicitResult{Action: mcp.ElicitDecline}
	if yes {
		answer = mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage("{}")}
	}
	return q.Answer(ctx, rawjson.Encode(answer))
}

// held keeps what is written, up to a bound, until it can be shown.
type held struct {
	mu   sync.Mutex
	text []byte
	to   io.Writer // nil until pass
}

// maxHeld bounds held.text, in bytes; the rest is dropped.
const maxHeld = 16 << 10

func (h *held) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.to != nil {
		return h.to.Write(p)
	}
	h.text = append(h.text, p[:min(len(p), maxHeld-len(h.text))]...)
	return len(p), nil
}

// pass writes what was held, and passes on everything from now on.
func (h *held) pass(to io.Writer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.to = to
	_, _ = to.Write(h.text)
}
