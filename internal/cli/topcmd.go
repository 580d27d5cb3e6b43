package cli

import (
	"context"
	"io"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"runnel/internal/term"
	"runnel/internal/top"
	"runnel/tasks"
)

// topCommand is "runnel top".
func (i *invocation) topCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the tasks of all hosts on a screen, follow their output, cancel them",
		Long: `Shows what runs on this machine, with the last line of each task, and below it what ended last: the tasks that "runnel tasks list" lists, each second
anew. The keys: up and down (or k and j) select a task, Enter follows its output (with / to search), c cancels it, ? says more, q leaves. The tasks go on.
How far a task is (DONE) stands there if its tool says so, or its last line, as in 40% or [4/10]. NO_COLOR=1 shows no colours.`,
		Example: `  runnel top

  # the tasks of all machines that share a state
  runnel top --state nats://HOST:4222`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			in, isFile := i.Stdin.(*os.File)
			out, isTerminal := i.Stdout.(*os.File)
			if !isFile || !isTerminal || !term.IsTerminal(in) || !term.IsTerminal(out) || i.Getenv("TERM") == "dumb" {
				return misuse(cmd, "runnel top: it draws on a terminal, and reads keys from it; runnel tasks list prints the tasks")
			}
			held := &held{}
			if term.IsTerminal(i.Stderr) { // the same terminal: what is said meanwhile would be drawn over
				defer func(to io.Writer) { held.pass(to) }(i.Stderr)
				i.Stderr = held
			}
			l, err := i.openLocal(cmd)
			if err != nil {
				return err
			}
			defer l.close()
			err = top.Run(cmd.Context(), top.Options{
				Source: seen{l.runner, l}, Where: l.where(), In: in, Out: out,
				Colors: i.Getenv("NO_COLOR") == "",
				Begun: func(leave func()) {
					select {
					case i.lastWords <- leave:
					default: // no signal comes
					}
				},
			})
			if cmd.Context().Err() != nil {
				return exitError(exitInterrupted)
			}
			return err
		},
	}
	cmd.Flags().SortFlags = false
	i.addServeFlags(cmd.Flags(), "config", "state", "owner")
	return cmd
}

// seen is what the screen shows.
type seen struct {
	*tasks.Runner
	local *local
}

// List returns the tasks, those that run with their last line.
func (s seen) List(ctx context.Context) ([]tasks.Task, error) { return s.local.list(ctx, false) }

// held keeps the beginning of what is written until it can be shown.
type held struct {
	mu   sync.Mutex
	text []byte
	to   io.Writer // nil until then
}

// maxHeld bounds what is held, in bytes.
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

// pass writes what was held, and from now on all that comes.
func (h *held) pass(to io.Writer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.to = to
	_, _ = to.Write(h.text)
}
