package cli

import (
	"cmp"
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
	var watch, all bool
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Show the workers, what runs where, and what waits for a worker",
		Long: `Shows the workers (runnel work) that take the owner's tasks from a state that several
machines share: their classes, their slots, and the tasks that they run; then how many tasks wait for each
class. With --watch it goes on until Ctrl-C: a terminal is redrawn each second; elsewhere, each change is
printed. With --all-owners it shows those of all owners that the state knows.`,
		Example: `  runnel fleet --state nats://HOST:4222

  runnel fleet --all-owners --state nats://HOST:4222

  # as it changes, on the screen or for a program
  runnel fleet --watch --state nats://HOST:4222
  runnel fleet --watch -o ndjson --state nats://HOST:4222`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, queues, err := i.openQueues(cmd)
			if err != nil {
				return err
			}
			defer l.close()
			show := func(ctx context.Context) (string, error) {
				owners := []string{l.owner}
				if all {
					if owners, err = queues.Owners(ctx); err != nil {
						return "", err
					}
				}
				views := map[string]*fleetView{}
				for _, owner := range owners {
					if views[owner], err = viewFleet(ctx, queues.Open(owner).(tasks.Queue)); err != nil {
						return "", fmt.Errorf("owner %s: %w", owner, err)
					}
				}
				switch {
				case output.Word == "text":
					return fleetTable(views, all), nil
				case all:
					return jsonLine(map[string]any{"owners": views})
				}
				return jsonLine(views[l.owner])
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
	cmd.Flags().BoolVar(&all, "all-owners", false, "those of all owners")
	output = outputFlag(cmd.Flags(), "json (all on one line, with the workers' tools)",
		"ndjson (the same, with --watch a line for each change)")
	i.addSettings(cmd.Flags())
	pause := func(class string) tasks.Order { return tasks.Order{What: tasks.OrderPause, Name: class} }
	cmd.AddCommand(
		i.orderCommand("drain NAME", "Let the workers of a name finish what runs there, and end",
			drainWorkers),
		i.orderCommand("pause CLASS", "Let no worker take calls of a class, until resume",
			func(ctx context.Context, q tasks.Queue, owner, class string) error {
				of := func(w tasks.Worker) bool { return slices.Contains(w.Classes, class) }
				err := obeyed(ctx, q, owner, "takes class "+class, of)
				if err != nil && !errors.Is(err, errNoWorker) { // one that comes later is to obey, too
					return err
				}
				return q.Order(ctx, pause(class))
			}),
		i.orderCommand("resume CLASS", "Let workers take calls of a paused class again",
			func(ctx context.Context, q tasks.Queue, _, class string) error {
				return q.Withdraw(ctx, pause(class))
			}),
	)
	return cmd
}

// drainWorkers asks the workers of a name to end.
func drainWorkers(ctx context.Context, q tasks.Queue, owner, name string) error {
	named := func(w tasks.Worker) bool { return w.Name == name }
	err := obeyed(ctx, q, owner, fmt.Sprintf("is named %q", name), named)
	if err != nil {
		return err
	}
	return q.Order(ctx, tasks.Order{What: tasks.OrderDrain, Name: name})
}

var errNoWorker = errors.New("runnel fleet shows which there are")

// obeyed returns an error unless a worker is there that fits, and it obeys the owner: a worker of several
// owners obeys the first of them. what says in words how one fits.
func obeyed(ctx context.Context, q tasks.Queue, owner, what string, fits func(tasks.Worker) bool) error {
	workers, _, err := q.Fleet(ctx)
	if err != nil {
		return err
	}
	there := false
	for _, w := range workers {
		if fits(w) && !w.Foreign {
			return nil
		}
		there = there || fits(w)
	}
	if there {
		return fmt.Errorf("the worker that %s does not obey %s, but the first of its --owners: "+
			"name that one with --owner", what, owner)
	}
	return fmt.Errorf("no worker %s: %w", what, errNoWorker)
}

// orderCommand is a command that asks the workers for something. They read it within 4 s.
func (i *invocation) orderCommand(use, short string,
	order func(ctx context.Context, q tasks.Queue, owner, name string) error,
) *cobra.Command {
	verb, what, _ := strings.Cut(use, " ")
	example := map[string]string{"NAME": "blue", "CLASS": "builds"}[what]
	cmd := &cobra.Command{
		Use: use, Short: short,
		Example: fmt.Sprintf("  runnel fleet %s %s --state nats://HOST:4222", verb, example),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return misuse(cmd, "runnel fleet %s: one %s is needed", verb, what)
			}
			l, _, err := i.openQueues(cmd)
			if err != nil {
				return err
			}
			defer l.close()
			return order(cmd.Context(), l.store.(tasks.Queue), l.owner, args[0])
		},
	}
	cmd.Flags().SortFlags = false
	i.addSettings(cmd.Flags())
	return cmd
}

// openQueues opens a state that has workers.
func (i *invocation) openQueues(cmd *cobra.Command) (*local, tasks.Queues, error) {
	l, err := i.openLocal(cmd)
	if err != nil && !errors.Is(err, errNoState) && !errors.Is(err, errMemory) {
		return nil, nil, err
	}
	if l != nil {
		if queues, ok := l.state.(tasks.Queues); ok {
			return l, queues, nil
		}
		l.close()
	}
	return nil, nil, &serve.UsageError{
		Err: errors.New("runnel fleet: workers are found through a state on NATS: " +
			"name it with --state nats://HOST:4222"),
	}
}

// fleetView is what an owner has of a fleet.
type fleetView struct {
	Workers []tasks.Worker       `json:"workers"`
	Waiting map[string]int       `json:"waiting"`      // by class
	Since   map[string]time.Time `json:"waitingSince"` // by class: when the one that waits longest was offered
	// Paused are the classes of which no worker takes calls: those that the owner has paused, and those that
	// the workers' first owner has.
	Paused []string `json:"paused"`
}

func viewFleet(ctx context.Context, queue tasks.Queue) (*fleetView, error) {
	v := &fleetView{Workers: []tasks.Worker{}, Waiting: map[string]int{}, Since: map[string]time.Time{}}
	workers, waiting, err := queue.Fleet(ctx)
	if err != nil {
		return nil, err
	}
	orders, err := queue.Orders(ctx)
	for _, o := range orders {
		if o.What == tasks.OrderPause {
			v.Paused = append(v.Paused, o.Name)
		}
	}
	for _, w := range workers {
		v.Workers = append(v.Workers, w)
		v.Paused = append(v.Paused, w.Paused...)
	}
	for class, waits := range waiting {
		v.Waiting[class], v.Since[class] = waits.Tasks, waits.Since
	}
	slices.Sort(v.Paused)
	v.Paused = slices.Compact(v.Paused)
	return v, err
}

// jsonLine returns a value as a line.
func jsonLine(v any) (string, error) {
	var line strings.Builder
	err := writeJSON(&line, v)
	return line.String(), err
}

// fleetTable shows workers, each with the tasks that it runs, how many tasks wait for each class, and which
// classes are paused, by owner. named says that each line names its owner.
func fleetTable(views map[string]*fleetView, named bool) string {
	of := func(owner string) string {
		if named {
			return " of " + owner
		}
		return ""
	}
	var workers []tasks.Worker
	runs := map[string][]string{} // by worker, which may have several owners
	key := func(w *tasks.Worker) string { return fmt.Sprint(w.Host, " ", w.PID, " ", w.Name) }
	owners := slices.Sorted(maps.Keys(views))
	for _, owner := range owners {
		for _, w := range views[owner].Workers {
			if _, known := runs[key(&w)]; !known {
				runs[key(&w)] = nil
				workers = append(workers, w)
			}
			for _, t := range w.Tasks {
				runs[key(&w)] = append(runs[key(&w)], fmt.Sprintf("%.8s %s%s since %s", t.ID, t.Tool,
					of(owner), t.Since.Local().Format(time.TimeOnly)))
			}
		}
	}
	text := "no workers; runnel work starts one\n"
	rows := [][]string{{"NAME", "HOST", "PID", "CLASSES", "RUNS", "SLOTS", "REFUSED", "LABELS", "TASKS"}}
	for _, w := range workers {
		slots := fmt.Sprint(w.Slots)
		if w.Slots == 0 {
			slots = "stopping"
		}
		rows = append(rows, []string{
			cmp.Or(w.Name, w.Host), w.Host, fmt.Sprint(w.PID), strings.Join(w.Classes, ","),
			fmt.Sprint(len(w.Running)), slots, fmt.Sprint(w.Refused),
			strings.Join(w.Labels, ","), strings.Join(runs[key(&w)], ", "),
		})
	}
	if len(workers) > 0 {
		text = term.Table(rows) // it makes the words harmless: others have written them
	}
	for _, owner := range owners {
		v := views[owner]
		for _, class := range slices.Sorted(maps.Keys(v.Waiting)) {
			text += fmt.Sprintf("%d%s waiting for a worker of class %s, the first since %s\n",
				v.Waiting[class], of(owner), class, v.Since[class].Local().Format(time.DateTime))
		}
	}
	for _, owner := range owners {
		for _, class := range views[owner].Paused {
			resume := "runnel fleet resume " + class
			if named {
				resume += " --owner " + owner
			}
			text += fmt.Sprintf("class %s%s is paused; %s ends that\n", class, of(owner), resume)
		}
	}
	return text
}
