package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"runnel/internal/serve"
	"runnel/internal/term"
	"runnel/tasks"
)

// fleetCommand is "runnel fleet".
func (i *invocation) fleetCommand() *cobra.Command {
	var output *serve.Choice
	var watch bool
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Show the workers, what runs where, and what waits for a worker",
		Long: `Shows the workers (runnel work) that take the owner's tasks from a state that several machines share: their classes, their slots, and the
tasks that they run; then how many tasks wait for each class. With --watch it goes on until Ctrl-C: a terminal is redrawn each second;
elsewhere, each change is printed.`,
		Example: `  runnel fleet --state nats://HOST:4222

  # as it changes, on the screen or for a program
  runnel fleet --watch --state nats://HOST:4222
  runnel fleet --watch -o ndjson --state nats://HOST:4222`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := i.openLocal(cmd)
			if err != nil && !errors.Is(err, errNoState) && !errors.Is(err, errMemory) {
				return err
			}
			if l != nil {
				defer l.close()
			}
			queue, ok := l.queue()
			if !ok {
				return &serve.UsageError{Err: errors.New("runnel fleet: workers are found through a state on NATS: name it with --state nats://HOST:4222")}
			}
			show := func(ctx context.Context) (string, error) {
				workers, waiting, err := queue.Fleet(ctx, l.owner)
				if err != nil || output.Word == "text" {
					return fleetTable(workers, waiting), err
				}
				var line strings.Builder
				count, oldest := map[string]int{}, map[string]time.Time{}
				for class, waits := range waiting {
					count[class], oldest[class] = waits.Tasks, waits.Since
				}
				list := append([]tasks.Worker{}, workers...)
				err = writeJSON(&line, map[string]any{"workers": list, "waiting": count, "waitingSince": oldest})
				return line.String(), err
			}
			switch {
			case !watch:
				text, err := show(cmd.Context())
				if err == nil {
					_, err = io.WriteString(i.Stdout, text)
				}
				return err
			case output.Word == "text" && term.IsTerminal(i.Stdout) && i.Getenv("TERM") != "dumb":
				return drawAgain(cmd.Context(), i.Stdout, "runnel fleet  "+l.where(), show)
			default:
				return writeChanges(cmd.Context(), i.Stdout, show)
			}
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show it again and again, until Ctrl-C")
	output = outputFlag(cmd.Flags(), "json (all on one line, with the workers' tools)", "ndjson (the same, with --watch a line for each change)")
	i.addSettings(cmd.Flags())
	return cmd
}

// queue returns the state if it has workers. l is nil without a state.
func (l *local) queue() (tasks.Queue, bool) {
	if l == nil {
		return nil, false
	}
	queue, ok := l.store.(tasks.Queue)
	return queue, ok
}

// fleetTable shows workers, each with the first characters of the ids that it runs, and how many tasks wait
// for each class.
func fleetTable(workers []tasks.Worker, waiting map[string]tasks.Waiting) string {
	text := "no workers; runnel work starts one\n"
	rows := [][]string{{"HOST", "PID", "CLASSES", "RUNS", "SLOTS", "REFUSED", "TASKS"}}
	for _, w := range workers {
		slots := fmt.Sprint(w.Slots)
		if w.Slots == 0 {
			slots = "stopping"
		}
		var ids []string
		for _, id := range w.Running {
			if id != "" { // another owner's
				ids = append(ids, id[:min(len(id), 8)])
			}
		}
		rows = append(rows, []string{w.Host, fmt.Sprint(w.PID), strings.Join(w.Classes, ","), fmt.Sprint(len(w.Running)), slots, fmt.Sprint(w.Refused), strings.Join(ids, " ")})
	}
	if len(workers) > 0 {
		text = term.Table(rows) // it makes the words harmless: others have written them
	}
	for _, class := range slices.Sorted(maps.Keys(waiting)) {
		waits := waiting[class]
		since := waits.Since.Local().Format(time.DateTime)
		text += fmt.Sprintf("%d waiting for a worker of class %s, the first since %s\n", waits.Tasks, class, since)
	}
	return text
}
