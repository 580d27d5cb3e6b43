package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"runnel/internal/serve"
	"runnel/internal/term"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tasks/sqlite"
	"runnel/tools/config"
	"runnel/tools/notify"
)

// local gives access to an owner's tasks in a state, no matter which processes run them.
type local struct {
	i       *invocation
	conf    *config.Config
	dir     string // or a URL
	owner   string
	state   tasks.State        // nil before open, as are these:
	store   serve.PeoplesStore // the owner's
	runner  *run.Runner
	notices *notify.Notices // about the tasks that it ends for runnels that are gone
}

// cancelPatience is how long a cancellation may take: the runnel that runs a task looks for one several times
// a second.
const cancelPatience = 3 * time.Second

// errNoState means that there is no state where this command looks.
var errNoState = errors.New("there is no state")

var errMemory = errors.New("the state is memory, whose tasks only their own process knows: " +
	"name a directory with --state")

// openLocal opens the tasks that a command's flags and config name.
func (i *invocation) openLocal(cmd *cobra.Command) (*local, error) {
	l, err := i.findLocal(cmd)
	if err == nil {
		err = l.open()
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// findLocal returns the tasks that a command's flags and config name, before they are opened.
func (i *invocation) findLocal(cmd *cobra.Command) (*local, error) {
	conf, err := i.LoadStateConfig(cmd.Context())
	if err != nil {
		return nil, err
	}
	if conf.State.InMemory() {
		return nil, &serve.UsageError{Err: errMemory}
	}
	if rules, err := notify.FromConfig(conf, i.Env); err == nil { // else a server with this config reports it
		i.Notices.Replace(rules)
	}
	l := &local{i: i, conf: conf, dir: conf.State.Dir, owner: conf.Server.Owner, notices: i.Notices}
	if !conf.State.IsURL() {
		if l.dir, err = conf.StateDir(i.Getenv); err != nil {
			return nil, &serve.UsageError{Err: fmt.Errorf("%w: name the state directory with --state", err)}
		}
	}
	return l, nil
}

// open opens the state. After errNoState it may be called again.
func (l *local) open() (err error) {
	if l.conf.State.IsURL() {
		l.state, err = serve.OpenURL(l.conf, l.i.Getenv, true, l.notices.Tell, l.i.Logger())
	} else {
		err = l.openDir()
	}
	if err == nil {
		l.store = l.state.Open(l.owner).(serve.PeoplesStore)
		o := run.Options{State: l.state, Owner: l.owner, AskTimeout: cancelPatience, Log: l.i.Logger()}
		l.runner = run.NewRunner(o)
	}
	return err
}

func (l *local) openDir() error {
	// Not the config's limits: the processes that use the state may have larger ones.
	const noLimit = 1 << 44
	history := serve.History(l.conf)
	history.Log = math.MaxInt32
	s := sqlite.New(sqlite.Options{Dir: l.dir, MaxState: noLimit, Calls: true, History: history,
		Recovered: l.notices.Tell, Log: l.i.Logger()})
	if !s.Exists() {
		return fmt.Errorf("%w in %s: no task has run there; --state names another directory",
			errNoState, l.dir)
	}
	l.state = s
	return s.Recover()
}

// where says which tasks these are.
func (l *local) where() string { return fmt.Sprintf("%s (%s)", l.dir, l.owner) }

func (l *local) close() {
	if l.runner != nil {
		l.runner.Close()
		_ = l.state.Close() // everything has been written already
	}
	l.notices.Close()
}

// all shows all tasks.
func all(*tasks.Task) bool { return true }

// await is list for a command that watches: before the first task there are none.
func (l *local) await(ctx context.Context, shows func(*tasks.Task) bool) ([]tasks.Task, error) {
	if l.runner == nil {
		if err := l.open(); errors.Is(err, errNoState) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
	}
	return l.list(ctx, shows)
}

// find returns the id that begins with prefix.
func (l *local) find(ctx context.Context, prefix string) (string, error) {
	const most = 5 // ids in an error
	ids, err := l.store.Find(ctx, prefix, most)
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

// aboutTask makes a command that takes the id of one task.
func (i *invocation) aboutTask(use, short, long, example string,
	run func(cmd *cobra.Command, l *local, id string) error) *cobra.Command {
	cmd := i.aboutTasks(use, short, long, example, run)
	cmd.Args = atMostOne
	return cmd
}

// aboutTasks makes a command that takes the ids of some tasks. One that fails does not stop the others; the
// exit code is that of the first.
func (i *invocation) aboutTasks(use, short, long, example string,
	run func(cmd *cobra.Command, l *local, id string) error) *cobra.Command {
	withTask := func(cmd *cobra.Command, l *local, prefix string) error {
		id, err := l.find(cmd.Context(), prefix)
		if err == nil {
			err = run(cmd, l, id)
		}
		switch {
		case cmd.Context().Err() != nil:
			return interrupted(cmd.Context())
		case errors.Is(err, tasks.ErrNotFound):
			return fmt.Errorf("task %s does not exist any more: it expired, was forgotten, or was a call "+
				"whose host has its answer", id)
		case errors.Is(err, syscall.EPIPE):
			return exitError(exitUnread)
		}
		return err
	}
	withTasks := func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 || slices.Contains(args, "") {
			return misuse(cmd, "%s: which task? runnel tasks list shows their ids", cmd.CommandPath())
		}
		l, err := i.openLocal(cmd)
		if err != nil {
			return err
		}
		defer l.close()
		if len(args) == 1 {
			return withTask(cmd, l, args[0])
		}
		var first error
		for _, prefix := range args {
			err := withTask(cmd, l, prefix)
			if _, isCode := errors.AsType[exitError](err); err != nil && !isCode {
				i.Say(zerolog.ErrorLevel, "runnel: "+err.Error())
				err = exitError(exitFailure)
			}
			first = cmp.Or(first, err)
			if cmd.Context().Err() != nil {
				break
			}
		}
		return first
	}
	return &cobra.Command{Use: use, Short: short, Long: long, Example: example, RunE: withTasks,
		ValidArgsFunction: i.completeTask}
}

// list returns the owner's tasks that are shown, oldest first. The message of a running task is its last line
// of output.
func (l *local) list(ctx context.Context, shows func(*tasks.Task) bool) (list []tasks.Task, err error) {
	every, _, err := l.runner.List(ctx, "", math.MaxInt32)
	for _, t := range every {
		if !t.Status.Terminal() {
			// else it is gone or damaged, and is shown as it was listed.
			if now, err := l.runner.Head(ctx, t.ID); err == nil {
				t = now
			}
		}
		if shows(&t) {
			list = append(list, t)
		}
	}
	return list, err
}

// listedTask is a task as -o json shows it: the fields of tasks/get, the tool and the size of the output.
type listedTask struct {
	mcp.Task
	Tool        string `json:"tool"`
	Host        string `json:"host,omitempty"`
	OutputBytes *int64 `json:"outputBytes,omitempty"`
}

// completeTask completes the id of a task.
func (i *invocation) completeTask(cmd *cobra.Command, args []string,
	toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const silent = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	if len(args) > 0 && cmd.Args != nil { // it takes one
		return nil, silent
	}
	i.Stderr = io.Discard
	if i.readEnvironment(cmd, false) != nil {
		return nil, silent
	}
	l, err := i.openLocal(cmd)
	if err != nil {
		return nil, silent
	}
	defer l.close()
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	list, _ := l.list(ctx, all) // an incomplete list is good enough
	var ids []cobra.Completion
	for _, t := range slices.Backward(list) {
		switch ended := t.Status.Terminal(); {
		case slices.Contains(args, t.ID):
		case cmd.Name() == "cancel" && ended, cmd.Name() == "rm" && !ended: // the command would refuse it
		default:
			ids = append(ids, cobra.CompletionWithDesc(t.ID,
				fmt.Sprintf("%s %s, %s old", t.Tool, t.Status, term.Age(time.Since(t.CreatedAt)))))
		}
	}
	return ids, silent
}
