package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"runnel/internal/clients"
	"runnel/internal/serve"
	"runnel/internal/term"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

func (i *invocation) listCommand() *cobra.Command {
	var running, failed, watch, quiet bool
	var tool, host string
	var since time.Duration
	var output *serve.Choice
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the tasks: id, status, tool, age, the last line",
		Long: `Lists the tasks, and the latest calls of hosts that ended without becoming one (config key
history), the newest last. The last column shows the last line of a running task's output, or how a task
ended. Of more than three in a row that ended alike, the newest alone is shown; -q and -o show all.`,
		Example: `  # what are my hosts running right now?
  runnel tasks list --running

  # what has failed in Claude Code today?
  runnel tasks list --failed --host claude-code --since 24h

  # watch them
  runnel tasks list --watch

  # forget the tasks that failed
  runnel tasks list --failed -q | xargs runnel tasks rm`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if watch && (output.Word != "text" || !term.IsTerminal(i.Stdout)) {
				return misuse(cmd, "runnel tasks list: --watch draws on a terminal; a script waits with "+
					"runnel tasks wait ID")
			}
			if quiet && (watch || output.Word != "text") {
				return misuse(cmd, "runnel tasks list: -q does not go with -o or --watch")
			}
			shows := func(t *tasks.Task) bool {
				return (!running || !t.Status.Terminal()) && (!failed || t.Status == mcp.TaskFailed) &&
					(tool == "" || t.Tool == tool) &&
					(host == "" || isOfHost(t.Client, host)) &&
					(since == 0 || time.Since(t.CreatedAt) <= since)
			}
			l, err := i.findLocal(cmd)
			if err == nil {
				err = l.open()
			}
			if err != nil && !errors.Is(err, errNoState) {
				return err
			}
			defer l.close()
			if watch {
				return drawAgain(cmd.Context(), i.Stdout,
					"runnel tasks list  "+l.where(), func(ctx context.Context) (string, error) {
						list, err := l.await(ctx, shows)
						if len(list) == 0 {
							return "no tasks", err
						}
						// Lines: the title, a blank one, the names of the columns, and that of the cursor.
						const around = 4
						_, height := term.Size(i.Stdout)
						list = grouped(list)
						return tasksTable(list[max(len(list)-max(height-around, 1), 0):]), err
					})
			}
			if err != nil && !quiet {
				i.Say(zerolog.InfoLevel, err.Error())
			}
			list, err := l.await(cmd.Context(), shows)
			if err != nil {
				return err
			}
			if quiet {
				var ids strings.Builder
				for _, t := range list {
					ids.WriteString(t.ID + "\n")
				}
				_, err := io.WriteString(i.Stdout, ids.String())
				return err
			}
			shown := make([]listedTask, len(list))
			for n, t := range list {
				shown[n] = listedTask{Task: t.Shown(), Tool: t.Tool, Host: t.Client}
			}
			switch output.Word {
			case "json":
				return writeJSON(i.Stdout, map[string]any{"tasks": shown})
			case "ndjson":
				return writeLines(i.Stdout, shown)
			}
			if len(list) == 0 && l.runner != nil {
				what := "no tasks"
				if running || failed || tool != "" || host != "" || since > 0 {
					what = "no such tasks"
				}
				i.Say(zerolog.InfoLevel, fmt.Sprintf("%s of owner %q in %s", what, l.owner, l.dir))
			}
			return term.PrintLines(i.Stdout, tasksTable(grouped(list)))
		},
	}
	cmd.Flags().BoolVar(&running, "running", false, "only those that have not ended")
	cmd.Flags().BoolVar(&failed, "failed", false, "only those that failed")
	cmd.Flags().StringVar(&tool, "tool", "", "only those of the tool `NAME`")
	cmd.Flags().StringVar(&host, "host", "",
		"only those of the host `NAME`: as runnel install has it, or as it names itself")
	durationFlag(cmd.Flags(), &since, "since", "only those that began in the last `DURATION`, such as 2h")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print the ids alone, for a script")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show the list again every second, until Ctrl-C")
	output = outputFlag(cmd.Flags(), "json (the list on one line)", "ndjson (a task on each line)")
	return cmd
}

// isOfHost reports whether a client has a name: its own, or that of runnel install.
func isOfHost(client, name string) bool {
	return client == name || client != "" && clients.Find(client, "").Host == name
}

// grouped returns a list for a person: of more than three tasks of a tool in a row that ended alike, the
// newest alone. Else the calls of a burst would hide what runs.
func grouped(list []tasks.Task) (shown []tasks.Task) {
	for begin, end := 0, 0; begin < len(list); begin = end {
		first := list[begin]
		for end = begin + 1; end < len(list) && first.Status.Terminal(); end++ {
			next := list[end]
			if next.Tool != first.Tool || next.Client != first.Client || next.Status != first.Status ||
				next.StatusMessage != first.StatusMessage {
				break
			}
		}
		if n := end - begin; n > 3 {
			begin = end - 1
			list[begin].StatusMessage = fmt.Sprintf("(the newest of %d) %s", n, first.StatusMessage)
		}
		shown = append(shown, list[begin:end]...)
	}
	return shown
}

// tasksTable shows tasks, "" if there are none.
func tasksTable(list []tasks.Task) string {
	if len(list) == 0 {
		return ""
	}
	hosts := slices.ContainsFunc(list, func(t tasks.Task) bool { return t.Client != "" })
	rows := [][]string{{"ID", "STATUS", "TOOL", "AGE", "TOOK", ""}}
	if hosts {
		rows[0] = slices.Insert(rows[0], 3, "HOST")
	}
	short := shortIDs(list)
	for _, t := range list {
		took := t.UpdatedAt.Sub(t.CreatedAt)
		if !t.Status.Terminal() {
			took = time.Since(t.CreatedAt)
		}
		says, _, _ := strings.Cut(t.StatusMessage, "\n")
		switch {
		case t.Status != mcp.TaskInputRequired:
		case tasks.Asks(t.Variables):
			says = "(runnel tasks answer " + short[t.ID] + ") " + says
		case tasks.Answered(t.Variables):
			says = "(answered) " + says
		}
		row := []string{short[t.ID], string(t.Status), t.Tool, term.Age(time.Since(t.CreatedAt)),
			term.Age(took), term.Shorten(term.Plain(says))}
		if hosts {
			row = slices.Insert(row, 3, term.Plain(t.Client))
		}
		rows = append(rows, row)
	}
	return term.Table(rows)
}

// shortIDs shortens ids to 8 characters, or to as many as it takes to tell them apart.
func shortIDs(list []tasks.Task) map[string]string {
	ids := make([]string, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	slices.Sort(ids) // ids that begin alike are neighbours now
	short := make(map[string]string, len(ids))
	before := 0 // how many characters distinguish an id from the previous one
	for i, id := range ids {
		after := 0
		if i+1 < len(ids) {
			for next := ids[i+1]; after < min(len(id), len(next)) && id[after] == next[after]; after++ {
			}
			after++
		}
		short[id] = id[:min(max(8, before, after), len(id))]
		before = after
	}
	return short
}
