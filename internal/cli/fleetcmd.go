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

// watchPace is how often "runnel fleet --watch" looks.
const watchPace = time.Second

// fleetCommand is "runnel fleet".
func (i *invocation) fleetCommand() *cobra.Command {
	var output *serve.Choice
	var watch bool
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Show the workers, what runs where, and what waits for one",
		Long: `Shows the workers (runnel work) that take the owner's tasks from a state that several machines share: their classes, their slots, and the tasks
that they run; then how many tasks wait for each class. With --watch it does so until Ctrl-C: on a terminal each second in the same place, else
each time that something has changed.`,
		Example: `  runnel fleet --state nats://HOST:4222

  # as it changes, on the screen or for a program
  runnel fleet --watch --state nats://HOST:4222
  runnel fleet --watch -o ndjson --state nats://HOST:4222`,
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
				return &serve.UsageError{Err: errors.New("runnel fleet: workers are found through a state on NATS: name it with --state nats://HOST:4222")}
			}
			show := func(ctx context.Context) (string, error) {
				workers, waiting, err := queue.Fleet(ctx, l.owner)
				if err != nil || output.Word == "text" {
					return fleetTable(workers, waiting), err
				}
				var line strings.Builder
				err = writeJSON(&line, map[string]any{"workers": append([]tasks.Worker{}, workers...), "waiting": waiting})
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
				err = drawAgain(cmd.Context(), i.Stdout, fmt.Sprintf("runnel fleet  %s (%s)", l.dir, l.owner), show)
			default:
				err = writeChanges(cmd.Context(), i.Stdout, show)
			}
			if cmd.Context().Err() != nil {
				return exitError(exitInterrupted)
			}
			return err
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show it again and again, until Ctrl-C")
	output = outputFlag(cmd.Flags(), "json (all on one line, with the workers' tools)", "ndjson (the same, with --watch a line for each change)")
	i.addServeFlags(cmd.Flags(), "config", "state", "owner")
	return cmd
}

// drawAgain draws a text on a terminal again and again, as much of it as fits. It stays there when ctx has ended.
func drawAgain(ctx context.Context, out io.Writer, title string, show func(context.Context) (string, error)) error {
	for frame := "\x1b[2J"; ; frame = "" {
		text, err := show(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil { // a cluster that elects its leader answers again
			text = term.Printable("the workers cannot be asked: "+err.Error()) + "\n"
		}
		width, height := term.Size(out)
		lines := strings.Split(title+"  "+time.Now().Format(time.TimeOnly)+"\n\n"+strings.TrimSuffix(text, "\n"), "\n")
		if room := max(height-1, 2); len(lines) > room { // the cursor stands on the last line
			lines = append(lines[:room-1], fmt.Sprintf("%d more lines", len(lines)-room+1))
		}
		frame += "\x1b[H"
		for _, line := range lines {
			frame += term.Clip(line, width-1) + "\x1b[K\n"
		}
		if _, err := io.WriteString(out, frame+"\x1b[J"); err != nil {
			return err
		}
		select {
		case <-time.After(watchPace):
		case <-ctx.Done():
			return nil
		}
	}
}

// writeChanges writes a text each time that it has changed, until ctx ends.
func writeChanges(ctx context.Context, out io.Writer, show func(context.Context) (string, error)) error {
	for before := ""; ; {
		text, err := show(ctx)
		if err == nil && text != before {
			_, err = io.WriteString(out, text)
			before = text
		}
		if err != nil && !errors.Is(err, tasks.ErrBusy) { // a cluster that elects its leader answers again
			return err
		}
		select {
		case <-time.After(watchPace):
		case <-ctx.Done():
			return nil
		}
	}
}

// queue is the state if it has workers. Without a state l may be nil.
func (l *local) queue() (tasks.Queue, bool) {
	if l == nil {
		return nil, false
	}
	queue, ok := l.store.(tasks.Queue)
	return queue, ok
}

// fleetTable shows workers, each with the beginnings of the ids of what it runs, and how many tasks wait for each class.
func fleetTable(workers []tasks.Worker, waiting map[string]int) string {
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
		text = term.Table(rows) // it makes them harmless: others have written them
	}
	for _, class := range slices.Sorted(maps.Keys(waiting)) {
		text += fmt.Sprintf("%d waiting for a worker of class %s\n", waiting[class], class)
	}
	return text
}
