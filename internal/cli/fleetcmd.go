package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"runnel/internal/serve"
	"runnel/internal/term"
	"runnel/tasks"
)

// fleetCommand is "runnel fleet".
func (i *invocation) fleetCommand() *cobra.Command {
	var output *serve.Choice
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Show the workers, what runs where, and what waits for one",
		Long: `Shows the workers (runnel work) that take the owner's tasks from a state that several machines share: their classes, their slots, and the tasks
that they run; then how many tasks wait for each class.`,
		Example: `  runnel fleet --state nats://HOST:4222

  # again every second
  watch -n 1 runnel fleet --state nats://HOST:4222`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := i.openLocal(cmd)
			if err != nil && !errors.Is(err, errNoState) {
				return err
			}
			if l != nil {
				defer l.close()
			}
			queue, ok := l.queue()
			if !ok {
				return &serve.UsageError{Err: errors.New("runnel fleet: workers are found through a state that several machines share: name it with --state nats://HOST:4222")}
			}
			workers, waiting, err := queue.Fleet(cmd.Context(), l.owner)
			if err != nil {
				return err
			}
			if output.Word == "json" {
				if workers == nil {
					workers = []tasks.Worker{}
				}
				return writeJSON(i.Stdout, map[string]any{"workers": workers, "waiting": waiting})
			}
			if _, err := io.WriteString(i.Stdout, fleetTable(workers)); err != nil {
				return err
			}
			for _, class := range slices.Sorted(maps.Keys(waiting)) {
				if _, err := fmt.Fprintf(i.Stdout, "%d waiting for a worker of class %s\n", waiting[class], class); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().SortFlags = false
	output = outputFlag(cmd.Flags(), "json (all on one line, with the workers' tools)")
	i.addServeFlags(cmd.Flags(), "config", "state", "owner")
	return cmd
}

// queue is the state if it has workers. Without a state l may be nil.
func (l *local) queue() (tasks.Queue, bool) {
	if l == nil {
		return nil, false
	}
	queue, ok := l.store.(tasks.Queue)
	return queue, ok
}

// fleetTable shows workers, each with the beginnings of the ids of what it runs.
func fleetTable(workers []tasks.Worker) string {
	if len(workers) == 0 {
		return "no workers; runnel work starts one\n"
	}
	rows := [][]string{{"HOST", "PID", "CLASSES", "RUNS", "SLOTS", "REFUSED", "TASKS"}}
	for _, w := range workers {
		slots := fmt.Sprint(w.Slots)
		if w.Slots == 0 {
			slots = "stopping"
		}
		var ids []string
		for _, id := range w.Running {
			ids = append(ids, id[:min(len(id), 8)])
		}
		rows = append(rows, []string{w.Host, fmt.Sprint(w.PID), strings.Join(w.Classes, ","), fmt.Sprint(len(w.Running)), slots, fmt.Sprint(w.Refused), strings.Join(ids, " ")})
	}
	for _, row := range rows {
		for i := range row {
			row[i] = term.Printable(row[i]) // others have written it
		}
	}
	return term.Table(rows)
}
