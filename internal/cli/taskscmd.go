package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runnel/internal/serve"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/sqlite"
)

// local are the tasks of an owner in the state of this machine, whichever processes run them.
type local struct {
	dir    string
	owner  string
	store  *sqlite.State
	runner *tasks.Runner
}

// tasksCommand is "runnel tasks". serveFlags are those of runnel serve.
func (i *invocation) tasksCommand(serveFlags *pflag.FlagSet) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tasks COMMAND",
		Short: "Look at the tasks of all hosts on this machine, and end them",
		Long: `Shows the tasks that are kept on this machine, also those that other runnels are running right now for their hosts. A
call that a host waits for is among them while it runs. An id may be cut short, as long as no other one begins the same.`,
		Example: `  # what is running?
  runnel tasks list

  # its output as it comes
  runnel tasks tail -f 4d8a

  # end it
  runnel tasks cancel 4d8a`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return &serve.UsageError{Err: errors.New("runnel tasks: which one? list, get, tail, wait, result, cancel, rm or prune"), Hint: hint(cmd)}
		},
	}
	cmd.AddCommand(i.listCommand(), i.getCommand(), i.tailCommand(), i.waitCommand(), i.resultCommand(), i.cancelCommand(), i.rmCommand(), i.pruneCommand())
	for _, sub := range cmd.Commands() {
		sub.Flags().SortFlags = false
		addServeFlags(sub.Flags(), serveFlags, "config", "state", "owner")
	}
	return cmd
}

// errNoState tells that no task has been kept where this command looks.
var errNoState = errors.New("there is no state")

// openLocal opens the tasks that a command's flags and config name.
func (i *invocation) openLocal(cmd *cobra.Command) (*local, error) {
	if err := i.readEnvironmentQuietly(cmd); err != nil {
		return nil, err
	}
	conf, _, err := i.LoadConfig(cmd.Context())
	if err != nil {
		return nil, err
	}
	if conf.State.InMemory() {
		return nil, &serve.UsageError{Err: errors.New("the state is memory: such tasks are known to their own process only; name a directory with --state")}
	}
	dir, err := conf.StateDir(i.Getenv)
	if err != nil {
		return nil, &serve.UsageError{Err: fmt.Errorf("%w: name the state directory with --state", err)}
	}
	// Not the config's limit: this may be another one than that of the processes which use the state.
	const noLimit = 1 << 44
	l := &local{dir: dir, owner: conf.Server.Owner, store: sqlite.New(sqlite.Options{Dir: dir, MaxState: noLimit, Calls: true, Log: i.Logger()})}
	if !l.store.Exists() {
		return nil, fmt.Errorf("%w in %s: no task has run there; --state names another directory", errNoState, dir)
	}
	if err := l.store.Open(); err != nil {
		return nil, err
	}
	l.runner = tasks.NewRunner(tasks.Options{State: l.store, Owner: l.owner, AskTimeout: cancelPatience, Log: i.Logger()})
	return l, nil
}

func (l *local) close() {
	l.runner.Close()
	_ = l.store.Close() // what was to be written has been
}

// find completes a task's id.
func (l *local) find(ctx context.Context, prefix string) (string, error) {
	const most = 5 // are named
	ids, err := l.store.Find(ctx, l.owner, prefix, most)
	switch {
	case err != nil:
		return "", err
	case len(ids) == 0:
		return "", fmt.Errorf("there is no task %s of owner %q in %s", prefix, l.owner, l.dir)
	case len(ids) > 1:
		return "", fmt.Errorf("%s is the beginning of several ids: %s", prefix, strings.Join(ids, ", "))
	}
	return ids[0], nil
}

// aboutTask makes a command about one task.
func (i *invocation) aboutTask(use, short, long, example string, run func(cmd *cobra.Command, l *local, id string) error) *cobra.Command {
	withTask := func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0 || args[0] == "":
			return &serve.UsageError{Err: fmt.Errorf("%s: which task? runnel tasks list shows their ids", cmd.CommandPath()), Hint: hint(cmd)}
		case len(args) > 1:
			return noArguments(cmd, args[1:])
		}
		l, err := i.openLocal(cmd)
		if err != nil {
			return err
		}
		defer l.close()
		id, err := l.find(cmd.Context(), args[0])
		if err == nil {
			err = run(cmd, l, id)
		}
		switch {
		case cmd.Context().Err() != nil:
			return exitError(exitInterrupted)
		case errors.Is(err, tasks.ErrNotFound):
			return fmt.Errorf("task %s is gone: it has expired, was forgotten, or was a call that a host waited for and that has ended", id)
		case errors.Is(err, syscall.EPIPE): // head has seen enough
			return exitError(exitFailure)
		}
		return err
	}
	return &cobra.Command{Use: use, Short: short, Long: long, Example: example, RunE: withTask, ValidArgsFunction: i.completeTask}
}

// cancelPatience is how long a cancellation may take: an owner that runs looks for it several times a second.
const cancelPatience = 3 * time.Second

func (i *invocation) cancelCommand() *cobra.Command {
	return i.aboutTask("cancel ID", "Cancel a task, whichever runnel runs it",
		"Asks the runnel that runs the task to cancel it, and waits until that has happened: its command has ended then, or is being ended.",
		"  runnel tasks cancel 4d8a223b",
		func(cmd *cobra.Command, l *local, id string) error {
			t, err := l.runner.Cancel(cmd.Context(), id)
			switch {
			case errors.Is(err, tasks.ErrAsked):
				return fmt.Errorf("task %s is asked to cancel, but the runnel that runs it has not answered in %v (is it stopped?); it will cancel it when it goes on", id, cancelPatience)
			case errors.Is(err, tasks.ErrEnded):
				return fmt.Errorf("task %s had ended before: %s", id, t.Status)
			case err != nil:
				return err
			}
			_, err = fmt.Fprintf(i.Stdout, "%s %s\n", id, t.Status)
			return err
		})
}

func (i *invocation) waitCommand() *cobra.Command {
	return i.aboutTask("wait ID", "Wait until a task has ended",
		"Waits until the task has ended and says how. The exit code is as that of runnel call: the command's own, else 0, or 1 for an error.",
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
			return exitOf(t.Result())
		})
}

func (i *invocation) rmCommand() *cobra.Command {
	return i.aboutTask("rm ID", "Forget a task that has ended",
		"Deletes a task that has ended, with its result and its output, whether somebody has fetched them or not.",
		"  runnel tasks rm 4d8a223b",
		func(cmd *cobra.Command, l *local, id string) error {
			t, err := l.runner.Get(cmd.Context(), id)
			if err != nil {
				return err
			}
			if !t.Status.Terminal() {
				return fmt.Errorf("task %s has not ended: end it with runnel tasks cancel %s", id, id)
			}
			return l.store.Delete(cmd.Context(), l.owner, id)
		})
}

func (i *invocation) pruneCommand() *cobra.Command {
	var older time.Duration
	var force bool
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Forget the tasks that have ended and whose results were fetched",
		Long: `Deletes the tasks that have ended, with their results and their output, and shows which. A task stays if it still runs, or if nobody
has fetched its result yet (a host, or "runnel tasks result"): --force deletes those too.`,
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
			gone, kept, err := l.store.Forget(cmd.Context(), l.owner, time.Now().Add(-older), force)
			if err := i.printTasks(cmd.Context(), l, gone); err != nil {
				return err
			}
			text := fmt.Sprintf("%d forgotten", len(gone))
			if kept > 0 {
				text += fmt.Sprintf(", %d kept whose results nobody has fetched (--force forgets them too)", kept)
			}
			i.Say(zerolog.InfoLevel, text)
			return err
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "also those whose results nobody has fetched")
	cmd.Flags().Var((*span)(&older), "older", "only those that ended this `DURATION` ago or longer")
	return cmd
}

// all are the owner's tasks, in the order in which they were made.
func (l *local) all(ctx context.Context) (list []tasks.Task, err error) {
	const page = 200
	for cursor := ""; ; {
		var some []tasks.Task
		if some, cursor, err = l.runner.List(ctx, cursor, page); err != nil {
			return list, err
		}
		if list = append(list, some...); cursor == "" {
			return list, nil
		}
	}
}

// listedTask is a task as -o json shows it: as tasks/get does, with the name of its tool and the size of its output.
type listedTask struct {
	mcp.Task
	Tool        string `json:"tool"`
	OutputBytes *int64 `json:"outputBytes,omitempty"`
}
