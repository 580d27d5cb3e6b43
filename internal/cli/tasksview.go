package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"runnel/internal/serve"
	"runnel/internal/term"
	"runnel/partials"
	"runnel/tasks"
	"runnel/tools"
)

func (i *invocation) listCommand() *cobra.Command {
	var running, watch bool
	var output *serve.Choice
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the tasks: id, status, tool, age, the last line",
		Long:    "Lists the tasks, the newest last. A line ends with the last line of output of a task that runs, or with how the task ended.",
		Example: `  # what are my hosts running right now?
  runnel tasks list --running

  # watch them
  runnel tasks list --watch

  # the ids of the tasks that failed
  runnel tasks list -o ndjson | jq -r 'select(.status == "failed").taskId'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if watch && (output.Word != "text" || !term.IsTerminal(i.Stdout)) {
				return &serve.UsageError{Err: errors.New("runnel tasks list: --watch draws on a terminal; a script waits with runnel tasks wait ID"), Hint: hint(cmd)}
			}
			l, err := i.openLocal(cmd)
			switch {
			case errors.Is(err, errNoState):
				i.Say(zerolog.InfoLevel, err.Error())
			case err != nil:
				return err
			default:
				defer l.close()
			}
			if watch && l != nil {
				return i.watchTasks(cmd.Context(), l, running)
			}
			list, err := l.some(cmd.Context(), running)
			if err != nil {
				return err
			}
			shown := make([]listedTask, len(list))
			for n, t := range list {
				shown[n] = listedTask{Task: t.Shown(), Tool: t.Tool}
			}
			switch output.Word {
			case "json":
				return i.writeJSON(map[string]any{"tasks": shown})
			case "ndjson":
				return writeLines(i, shown)
			}
			if len(list) == 0 && l != nil {
				i.Say(zerolog.InfoLevel, fmt.Sprintf("none of owner %q in %s", l.owner, l.dir))
			}
			return i.printTasks(cmd.Context(), l, list)
		},
	}
	cmd.Flags().BoolVar(&running, "running", false, "only those that have not ended")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show the list again every second, until Ctrl-C")
	output = outputFlag(cmd.Flags(), "json (the list on one line)", "ndjson (a task on each line)")
	return cmd
}

// some are the owner's tasks, or those that have not ended. Without a state there are none.
func (l *local) some(ctx context.Context, running bool) ([]tasks.Task, error) {
	if l == nil {
		return nil, nil
	}
	list, err := l.all(ctx)
	if running {
		list = slices.DeleteFunc(list, func(t tasks.Task) bool { return t.Status.Terminal() })
	}
	return list, err
}

// watchTasks shows the list again and again, as many of the newest as fit.
func (i *invocation) watchTasks(ctx context.Context, l *local, running bool) error {
	const home = "\x1b[H\x1b[J"
	for {
		list, err := l.some(ctx, running)
		if ctx.Err() != nil {
			return exitError(exitInterrupted)
		}
		if err != nil {
			return err
		}
		_, height := term.Size(i.Stdout)
		list = list[max(len(list)-(height-2), 0):] // the head, and the line of the cursor
		if _, err := io.WriteString(i.Stdout, home); err != nil {
			return err
		}
		if err := i.printTasks(ctx, l, list); err != nil {
			return err
		}
		if len(list) == 0 {
			if _, err := fmt.Fprintln(i.Stdout, "no tasks"); err != nil {
				return err
			}
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return exitError(exitInterrupted)
		}
	}
}

// printTasks writes a table. l may be nil if there are no tasks.
func (i *invocation) printTasks(ctx context.Context, l *local, list []tasks.Task) error {
	if len(list) == 0 {
		return nil
	}
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "ID\tSTATUS\tTOOL\tAGE\tTOOK\t")
	short := shortIDs(list)
	for _, t := range list {
		took, says := t.UpdatedAt.Sub(t.CreatedAt), t.StatusMessage
		if !t.Status.Terminal() {
			took = time.Since(t.CreatedAt)
			if whole, err := l.runner.Get(ctx, t.ID); err == nil && says == "" {
				says = whole.StatusMessage
			}
		}
		says, _, _ = strings.Cut(says, "\n")
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", term.Printable(short[t.ID]), term.Printable(string(t.Status)), term.Printable(t.Tool), term.Age(time.Since(t.CreatedAt)), term.Age(took), term.Shorten(term.Printable(says)))
	}
	_ = table.Flush() // memory takes all
	return term.PrintLines(i.Stdout, text.String())
}

// shortIDs are the beginnings of ids, 8 characters or as many as tell one from the others.
func shortIDs(list []tasks.Task) map[string]string {
	ids := make([]string, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	slices.Sort(ids) // those that begin alike stand beside each other
	short := make(map[string]string, len(ids))
	before := 0 // how many characters tell it from the one before
	for i, id := range ids {
		behind := 0
		if i+1 < len(ids) {
			for next := ids[i+1]; behind < min(len(id), len(next)) && id[behind] == next[behind]; behind++ {
			}
			behind++
		}
		short[id] = id[:min(max(8, before, behind), len(id))]
		before = behind
	}
	return short
}

func (i *invocation) getCommand() *cobra.Command {
	var output *serve.Choice
	cmd := i.aboutTask("get ID", "Show a task", "Shows a task: its tool, its status, its times, the size of its output.",
		`  runnel tasks get 4d8a223b
  runnel tasks get 4d8a223b -o json | jq -r .status`,
		func(cmd *cobra.Command, l *local, id string) error {
			t, err := l.runner.Get(cmd.Context(), id)
			if err != nil {
				return err
			}
			size := t.Log.Size()
			if output.Word == "json" {
				return i.writeJSON(listedTask{Task: t.Shown(), Tool: t.Tool, OutputBytes: &size})
			}
			table := tabwriter.NewWriter(i.Stdout, 0, 0, 2, ' ', 0)
			line := func(name, format string, args ...any) {
				text := strings.ReplaceAll(strings.TrimSpace(term.PrintableLines(fmt.Sprintf(format, args...))), "\n", "\n\t")
				_, _ = fmt.Fprintf(table, "%s:\t%s\n", name, text)
			}
			line("id", "%s", t.ID)
			line("tool", "%s", t.Tool)
			line("owner", "%s", t.Owner)
			line("status", "%s", t.Status)
			if t.StatusMessage != "" {
				line("message", "%s", t.StatusMessage)
			}
			line("started", "%s (%s ago)", t.CreatedAt.Format(time.DateTime), term.Age(time.Since(t.CreatedAt)))
			if t.Status.Terminal() {
				line("ended", "%s (took %s)", t.UpdatedAt.Format(time.DateTime), term.Age(t.UpdatedAt.Sub(t.CreatedAt)))
			}
			line("expires", "%s", t.CreatedAt.Add(t.TTL).Format(time.DateTime))
			line("output", "%d bytes", size)
			if len(t.Variables) > 0 {
				line("variables", "%s", t.Variables)
			}
			return table.Flush()
		})
	output = outputFlag(cmd.Flags(), "json (on one line, as tasks/get gives it)")
	return cmd
}

func (i *invocation) tailCommand() *cobra.Command {
	var follow bool
	var after int64
	lines := position(-1)
	cmd := i.aboutTask("tail ID", "Write the output of a task; with -f as it comes",
		`Writes what the task has written so far, from the beginning or from a position on. With -f it goes on until the task has ended; Ctrl-C
leaves it, and the task goes on. What the command wrote to stderr, where that is kept apart, goes to stderr.`,
		`  runnel tasks tail 4d8a -f

  # the last ten lines
  runnel tasks tail 4d8a -n 10

  # what has come since
  runnel tasks tail 4d8a --after 5120`,
		func(cmd *cobra.Command, l *local, id string) error {
			at, v := after, term.NewView(i.Stdout, i.Stderr, "never", "")
			if lines >= 0 {
				if after > 0 {
					return &serve.UsageError{Err: errors.New("runnel tasks tail: -n does not go with --after"), Hint: hint(cmd)}
				}
				var err error
				if at, err = l.lastLines(cmd.Context(), id, int(min(lines, maxTail))); err != nil {
					return err
				}
			}
			_, err := l.runner.Tail(cmd.Context(), id, at, follow, func(b partials.Batch) error {
				if b.Start > at {
					i.Say(zerolog.WarnLevel, fmt.Sprintf("runnel: gap: %d bytes of the output are no longer kept (after %d bytes)", b.Start-at, at))
				}
				at = b.End
				for _, c := range b.Chunks {
					text, isText, stderr := string(c.Data), true, c.Stream == partials.Stderr
					if c.Kind == partials.Item {
						text, isText, stderr = term.Item(c.Data)
					}
					if err := v.Output(text, isText, stderr); err != nil {
						return err
					}
				}
				return nil
			})
			return err
		})
	cmd.Aliases = []string{"logs"}
	cmd.Flags().VarP(&lines, "lines", "n", "only the last `N` lines, and what follows them")
	cmd.Flags().Lookup("lines").DefValue = "0" // which help does not show
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the task has ended")
	cmd.Flags().Var((*position)(&after), "after", "from position `N` on: that many bytes of output are passed over")
	return cmd
}

// maxTail bounds what is kept in mind of lines: 8 bytes each.
const maxTail = 1 << 20

// lastLines is the position where the last n lines of a task's output begin.
func (l *local) lastLines(ctx context.Context, id string, n int) (int64, error) {
	var begins []int64 // of the last lines
	var size int64
	begin := true
	_, err := l.runner.Tail(ctx, id, 0, false, func(b partials.Batch) error {
		size = b.End
		at := b.Start
		for _, c := range b.Chunks {
			for k, char := range c.Data {
				if begin && n > 0 {
					begins = append(begins[max(len(begins)+1-n, 0):], at+int64(k))
				}
				begin = c.Kind == partials.Text && char == '\n'
			}
			at += int64(len(c.Data))
			begin = begin || c.Kind == partials.Item // which is shown on a line of its own
		}
		return nil
	})
	if len(begins) == 0 {
		return size, err
	}
	return begins[0], err
}

func (i *invocation) resultCommand() *cobra.Command {
	var output *serve.Choice
	cmd := i.aboutTask("result ID", "Wait for the result of a task and write it",
		"Waits until the task has ended and writes the content of its result. The exit code is as that of runnel call: the command's own, else 0, or 1 for an error.",
		`  runnel tasks result 4d8a223b
  runnel tasks result 4d8a223b -o json | jq .content`,
		func(cmd *cobra.Command, l *local, id string) error {
			t, err := l.runner.Await(cmd.Context(), id)
			if err != nil {
				return err
			}
			l.runner.TellRetrieved(id)
			if t.Outcome.Err != nil {
				return fmt.Errorf("%s: %w", t.Tool, t.Outcome.Err)
			}
			result := t.Result()
			if output.Word == "json" {
				err = i.writeJSON(result)
			} else {
				v := term.NewView(i.Stdout, i.Stderr, "never", "")
				for _, item := range tools.SplitEnd(result) {
					if text, isText, stderr := term.Item(item); err == nil {
						err = v.Output(text, isText, stderr)
					}
				}
			}
			if err != nil {
				return err
			}
			return exitOf(result)
		})
	output = outputFlag(cmd.Flags(), "json (on one line, as tasks/result gives it)")
	return cmd
}

// writeLines writes each of some values on a line of its own.
func writeLines[T any](i *invocation, list []T) error {
	for _, v := range list {
		if err := i.writeJSON(v); err != nil {
			return err
		}
	}
	return nil
}

// writeJSON writes a value on one line.
func (i *invocation) writeJSON(v any) error {
	e := json.NewEncoder(i.Stdout)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
