package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"runnel/internal/serve"
	"runnel/internal/term"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools/text"
)

// tasksCommand is "runnel tasks".
func (i *invocation) tasksCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tasks COMMAND",
		Short: "Look at the tasks of all hosts on this machine, and end them",
		Long: `Shows the tasks of this machine, including those that other runnels are running right now for
their hosts. A call that a host waits for is listed while it runs. The first characters of an id are enough
if no other id begins with them.`,
		Example: `  # what is running?
  runnel tasks list

  # its output as it comes
  runnel tasks tail -f 4d8a

  # end it
  runnel tasks cancel 4d8a`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return misuse(cmd,
				"runnel tasks needs a command: list, get, tail, wait, answer, result, cast, cancel, rm or prune")
		},
	}
	cmd.AddCommand(i.listCommand(), i.getCommand(), i.tailCommand(), i.waitCommand(), i.answerCommand(),
		i.resultCommand(), i.castCommand(), i.cancelCommand(), i.rmCommand(), i.pruneCommand())
	for _, sub := range cmd.Commands() {
		sub.Flags().SortFlags = false
		i.addSettings(sub.Flags())
	}
	return cmd
}

func (i *invocation) cancelCommand() *cobra.Command {
	return i.aboutTasks("cancel ID...", "Cancel tasks, whichever runnel runs them",
		"Asks the runnel that runs the task to cancel it and waits until it has done so: the task's "+
			"command has ended then, or is being stopped.",
		"  runnel tasks cancel 4d8a223b\n\n  # all that run\n  runnel tasks list --running -q | xargs "+
			"runnel tasks cancel",
		func(cmd *cobra.Command, l *local, id string) error {
			t, err := l.runner.Cancel(cmd.Context(), id)
			switch {
			case errors.Is(err, tasks.ErrAsked):
				return fmt.Errorf("the runnel that runs task %s has not answered the request to cancel it "+
					"within %v (is it stopped?): it will cancel the task when it continues", id, cancelPatience)
			case errors.Is(err, tasks.ErrEnded):
				return fmt.Errorf("task %s had already ended: %s", id, t.Status)
			case err != nil:
				return err
			}
			_, err = fmt.Fprintf(i.Stdout, "%s %s\n", id, t.Status)
			return err
		})
}

func (i *invocation) waitCommand() *cobra.Command {
	return i.aboutTasks("wait ID...", "Wait until tasks have ended",
		"Waits until each task has ended and prints its status. The exit code is that of runnel call: the "+
			"command's own, else 0, or 1 for an error; of\nseveral tasks, that of the first which failed.",
		`  runnel tasks wait 4d8a && notify-send "the build is done"`,
		func(cmd *cobra.Command, l *local, id string) error {
			t, err := l.runner.Await(cmd.Context(), id)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(i.Stdout, "%s %s\n", id, t.Status); err != nil {
				return err
			}
			if t.Outcome.Err != nil {
				return exitError(exitFailure)
			}
			return exitOf(t.Outcome.Result)
		})
}

func (i *invocation) rmCommand() *cobra.Command {
	return i.aboutTasks("rm ID...", "Forget tasks that have ended",
		"Deletes a task that has ended, with its result and output, whether or not they were fetched. One that "+
			"steps have begun stays as long as they\ngo on, since they may read its output.",
		"  runnel tasks rm 4d8a223b\n  runnel tasks list --failed -q | xargs runnel tasks rm",
		func(cmd *cobra.Command, l *local, id string) error {
			t, err := l.runner.Get(cmd.Context(), id)
			if err != nil {
				return err
			}
			if !t.Status.Terminal() {
				return fmt.Errorf("task %s still runs: end it with runnel tasks cancel %s", id, id)
			}
			if above := tasks.Above(t.Variables); above != "" {
				up, err := l.runner.Head(cmd.Context(), above)
				switch {
				case err == nil && !up.Status.Terminal():
					return fmt.Errorf("task %s was begun by task %s (%s, %s), which may read it: end that "+
						"one first with runnel tasks cancel %s, or runnel tasks answer %s if it waits for "+
						"an answer",
						id, above, up.Tool, up.Status, above, above)
				case err != nil && !errors.Is(err, tasks.ErrNotFound):
					return err
				}
			}
			return l.store.Delete(cmd.Context(), id)
		})
}

func (i *invocation) pruneCommand() *cobra.Command {
	var older time.Duration
	var force bool
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Forget the tasks that have ended and whose results were fetched",
		Long: `Deletes the tasks that have ended, with their results and output, and lists them. A task
stays if it still runs, if steps that still run have begun it, or if its result was not fetched yet by a
host or "runnel tasks result": --force deletes the last, too. What steps have begun counts as fetched when
their result was.`,
		Example: `  runnel tasks prune

  # all that ended more than ten minutes ago, fetched or not
  runnel tasks prune --force --older 10m`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := i.openLocal(cmd)
			if errors.Is(err, errNoState) {
				i.Say(zerolog.InfoLevel, err.Error())
				return nil
			}
			if err != nil {
				return err
			}
			defer l.close()
			gone, kept, err := l.store.Forget(cmd.Context(), time.Now().Add(-older), force)
			if err := term.PrintLines(i.Stdout, tasksTable(gone)); err != nil {
				return err
			}
			text := fmt.Sprintf("%d forgotten", len(gone))
			if kept > 0 {
				text += fmt.Sprintf(", %d kept whose results were not fetched yet (--force forgets them too)",
					kept)
			}
			i.Say(zerolog.InfoLevel, text)
			return err
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "also those whose results were not fetched yet")
	durationFlag(cmd.Flags(), &older, "older", "only those that ended this `DURATION` ago or longer")
	return cmd
}

func (i *invocation) getCommand() *cobra.Command {
	var output *serve.Choice
	cmd := i.aboutTasks("get ID...", "Show a task",
		"Shows tasks: the tool, the status, the times, the size of the output.",
		`  runnel tasks get 4d8a223b
  runnel tasks get 4d8a223b -o json | jq -r .status`,
		func(cmd *cobra.Command, l *local, id string) error {
			t, err := l.runner.Get(cmd.Context(), id)
			if err != nil {
				return err
			}
			size := t.Log.Size()
			if output.Word == "json" {
				return writeJSON(i.Stdout, listedTask{Task: t.Shown(), Tool: t.Tool, OutputBytes: &size})
			}
			var rows [][]string
			line := func(name, format string, args ...any) {
				name += ":"
				for text := range strings.SplitSeq(strings.TrimSpace(fmt.Sprintf(format, args...)), "\n") {
					rows = append(rows, []string{name, text})
					name = ""
				}
			}
			line("id", "%s", t.ID)
			line("tool", "%s", t.Tool)
			if t.Client != "" {
				line("host", "%s", t.Client)
			}
			line("owner", "%s", t.Owner)
			line("status", "%s", t.Status)
			if t.StatusMessage != "" {
				line("message", "%s", text.StripANSI([]byte(t.StatusMessage)))
			}
			switch {
			case t.Status != mcp.TaskInputRequired:
			case tasks.Asks(t.Variables):
				line("answer", "with runnel tasks answer %s", t.ID)
			case tasks.Answered(t.Variables):
				line("answer", "given: the task %s", tasks.WaitsFor(&t))
			}
			switch {
			case t.Attempt > 1:
				line("worker", "%s (attempt %d)", cmp.Or(t.Worker, "none yet"), max(t.Attempt, 1))
			case t.Worker != "":
				line("worker", "%s", t.Worker)
			}
			line("started", "%s (%s ago)", t.CreatedAt.Format(time.DateTime),
				term.Age(time.Since(t.CreatedAt)))
			if t.Status.Terminal() {
				line("ended", "%s (took %s)", t.UpdatedAt.Format(time.DateTime),
					term.Age(t.UpdatedAt.Sub(t.CreatedAt)))
			}
			line("expires", "%s", t.CreatedAt.Add(t.TTL).Format(time.DateTime))
			line("output", "%d bytes", size)
			if own := tasks.OwnVariables(t.Variables); own != nil {
				line("variables", "%s", own)
			}
			_, err = io.WriteString(i.Stdout, term.Table(rows))
			return err
		})
	output = outputFlag(cmd.Flags(), "json (on one line, as tasks/get gives it)")
	return cmd
}
