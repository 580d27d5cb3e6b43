package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"runnel/partials"
	"runnel/tasks"
)

func (i *invocation) listCommand() *cobra.Command {
	var asJSON, ndjson, running bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tasks: id, status, tool, age, the last line",
		Long:  "Lists the tasks of the owner, the newest last. What it shows at the end of a line is the last line of output of a task that runs, else how it ended.",
		Example: `  # what are my hosts running right now?
  runnel tasks list --running

  # the ids of the tasks that failed
  runnel tasks list --ndjson | jq -r 'select(.status == "failed").taskId'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON && ndjson {
				return &usageError{errors.New("runnel tasks list: --json does not go with --ndjson"), hint(cmd)}
			}
			l, err := i.openLocal(cmd)
			var list []tasks.Task
			switch {
			case errors.Is(err, errNoState):
				i.say(zerolog.InfoLevel, err.Error())
			case err != nil:
				return err
			default:
				defer l.close()
				if list, err = l.all(cmd.Context()); err != nil {
					return err
				}
			}
			if running {
				list = slices.DeleteFunc(list, func(t tasks.Task) bool { return t.Status.Terminal() })
			}
			if !asJSON && !ndjson {
				if len(list) == 0 && l != nil {
					i.say(zerolog.InfoLevel, fmt.Sprintf("none of owner %q in %s", l.owner, l.dir))
				}
				return i.printTasks(cmd.Context(), l, list)
			}
			shown := make([]listedTask, len(list))
			for n, t := range list {
				shown[n] = listedTask{Task: t.Shown(), Tool: t.Tool}
			}
			if asJSON {
				return i.writeJSON(map[string]any{"tasks": shown})
			}
			for _, t := range shown {
				if err := i.writeJSON(t); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&running, "running", false, "only those that have not ended")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write the list as JSON on one line")
	cmd.Flags().BoolVar(&ndjson, "ndjson", false, "write each task as JSON on a line")
	return cmd
}

// printTasks writes a table. l may be nil if there are no tasks.
func (i *invocation) printTasks(ctx context.Context, l *local, list []tasks.Task) error {
	if len(list) == 0 {
		return nil
	}
	out := bufio.NewWriter(i.stdout) // the table comes cell by cell
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
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
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", short[t.ID], t.Status, t.Tool, age(time.Since(t.CreatedAt)), age(took), shorten(printable(says)))
	}
	_ = table.Flush() // its error is out's
	return out.Flush()
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

// age is a time for people: its largest unit, or two of them where one says little.
func age(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", max(d, 0).Seconds())
	case d < time.Hour:
		return strings.Replace(d.Truncate(time.Second).String(), "m0s", "m", 1)
	case d < 2*day:
		return strings.Replace(d.Truncate(time.Minute).String(), "m0s", "m", 1)
	}
	return fmt.Sprintf("%dd", d/day)
}

func (i *invocation) getCommand() *cobra.Command {
	var asJSON bool
	cmd := i.aboutTask("get ID", "Show a task", "Shows a task: its tool, its status, its times, the size of its output.",
		`  runnel tasks get 4d8a223b
  runnel tasks get 4d8a223b --json | jq -r .status`,
		func(cmd *cobra.Command, l *local, id string) error {
			t, err := l.runner.Get(cmd.Context(), id)
			if err != nil {
				return err
			}
			size := t.Log.Size()
			if asJSON {
				return i.writeJSON(listedTask{Task: t.Shown(), Tool: t.Tool, OutputBytes: &size})
			}
			table := tabwriter.NewWriter(i.stdout, 0, 0, 2, ' ', 0)
			line := func(name, format string, args ...any) {
				text := strings.ReplaceAll(strings.TrimSpace(fmt.Sprintf(format, args...)), "\n", "\n\t")
				_, _ = fmt.Fprintf(table, "%s:\t%s\n", name, text)
			}
			line("id", "%s", t.ID)
			line("tool", "%s", t.Tool)
			line("owner", "%s", t.Owner)
			line("status", "%s", t.Status)
			if t.StatusMessage != "" {
				line("message", "%s", t.StatusMessage)
			}
			line("started", "%s (%s ago)", t.CreatedAt.Format(time.DateTime), age(time.Since(t.CreatedAt)))
			if t.Status.Terminal() {
				line("ended", "%s (took %s)", t.UpdatedAt.Format(time.DateTime), age(t.UpdatedAt.Sub(t.CreatedAt)))
			}
			line("expires", "%s", t.CreatedAt.Add(t.TTL).Format(time.DateTime))
			line("output", "%d bytes", size)
			if len(t.Variables) > 0 {
				line("variables", "%s", t.Variables)
			}
			return table.Flush()
		})
	cmd.Flags().BoolVar(&asJSON, "json", false, "write it as JSON on one line, as tasks/get does")
	return cmd
}

func (i *invocation) tailCommand() *cobra.Command {
	var follow bool
	var after int64
	cmd := i.aboutTask("tail ID", "Write the output of a task; with -f as it comes",
		`Writes what the task has written so far, from the beginning or from a position on. With -f it goes on until the task has ended; Ctrl-C
leaves it, and the task goes on. What the command wrote to stderr, where that is kept apart, goes to stderr.`,
		`  runnel tasks tail 4d8a -f

  # what has come since
  runnel tasks tail 4d8a --after 5120`,
		func(cmd *cobra.Command, l *local, id string) error {
			at, v := after, newView(i.stdout, i.stderr, "never", "")
			_, err := l.runner.Tail(cmd.Context(), id, at, follow, func(b partials.Batch) error {
				if b.Start > at {
					i.say(zerolog.WarnLevel, fmt.Sprintf("runnel: gap: %d bytes of the output are no longer kept (after %d bytes)", b.Start-at, at))
				}
				at = b.End
				for _, c := range b.Chunks {
					text, isText, stderr := string(c.Data), true, c.Stream == partials.Stderr
					if c.Kind == partials.Item {
						text, isText, stderr = itemText(c.Data)
					}
					if err := v.output(text, isText, stderr); err != nil {
						return err
					}
				}
				return nil
			})
			return err
		})
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the task has ended")
	cmd.Flags().Var((*position)(&after), "after", "from position `N` on: that many bytes of output are passed over")
	return cmd
}

func (i *invocation) resultCommand() *cobra.Command {
	var asJSON bool
	cmd := i.aboutTask("result ID", "Wait for the result of a task and write it",
		"Waits until the task has ended and writes the content of its result. The exit code is as that of runnel call: the command's own, else 0, or 1 for an error.",
		`  runnel tasks result 4d8a223b
  runnel tasks result 4d8a223b --json | jq .structuredContent`,
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
			if asJSON {
				err = i.writeJSON(result)
			} else {
				v := newView(i.stdout, i.stderr, "never", "")
				for _, item := range result.Content {
					if text, isText, stderr := itemText(item); err == nil {
						err = v.output(text, isText, stderr)
					}
				}
			}
			if err != nil {
				return err
			}
			return exitOf(result)
		})
	cmd.Flags().BoolVar(&asJSON, "json", false, "write it as JSON on one line, as tasks/result does")
	return cmd
}

// writeJSON writes a value on one line.
func (i *invocation) writeJSON(v any) error {
	e := json.NewEncoder(i.stdout)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
