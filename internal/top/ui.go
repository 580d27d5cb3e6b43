package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"runnel/internal/term"
	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools/text"
)

// Source gives access to the tasks.
type Source interface {
	// List returns the tasks, oldest first. The message of a running one is its last line of output.
	List(ctx context.Context) ([]tasks.Task, error)
	// Again calls the tool of a task once more, with its arguments, and returns the new task.
	Again(ctx context.Context, id string) (tasks.Task, error)
	// Head, Tail and Cancel are those of a run.Runner.
	Head(ctx context.Context, id string) (tasks.Task, error)
	Tail(ctx context.Context, id string, after int64, follow bool,
		write func(partials.Batch) error) (tasks.Task, error)
	Cancel(ctx context.Context, id string) (tasks.Task, error)
}

// Options of Run.
type Options struct {
	Source  Source
	Where   string // the state and the owner, for people
	In, Out *os.File
	Colors  bool
	// Begun is called with the function that restores the terminal, for whoever ends the process at once.
	Begun func(leave func())
}

// ui is the state of the screen.
type ui struct {
	Options
	ctx    context.Context
	screen *screen
	events chan func() // run by the loop
	all    sync.WaitGroup

	// Owned by the loop.
	table   table
	output  *output // nil while the table is shown
	help    bool
	typing  bool   // the text of the table's filter is being typed
	asking  string // the question about a task that is to be confirmed with y
	agreed  func() // what happens then
	message string
	done    bool   // the user leaves
	stop    bool   // Ctrl-Z: the process must be suspended
	typed   []byte // an incomplete key
	relist  chan struct{}
}

// guarded restores the terminal before a panic ends the process: its message would be lost with the alternate
// screen.
func (u *ui) guarded(f func()) {
	defer func() {
		if why := recover(); why != nil {
			u.screen.leave()
			panic(why)
		}
	}()
	f()
}

// start runs f in a goroutine that ends before Run does.
func (u *ui) start(f func()) { u.all.Go(func() { u.guarded(f) }) }

// send hands f to the loop. It reports false if the loop has ended.
func (u *ui) send(f func()) bool {
	select {
	case u.events <- f:
		return true
	case <-u.ctx.Done():
		return false
	}
}

// open shows the output of a task, and follows it.
func (u *ui) open(t tasks.Task) {
	ctx, stop := context.WithCancel(u.ctx)
	o := &output{task: t, follow: true, stop: stop, shown: &term.Output{Terminal: true}}
	if u.Colors {
		o.shown.Colors = text.TerminalColor
	}
	u.output, u.message = o, ""
	u.start(func() {
		head, err := u.Source.Head(ctx, t.ID)
		after := int64(0)
		if err == nil {
			after = max(head.Log.Size()-keep, 0)
			var end tasks.Task
			if end, err = u.Source.Tail(ctx, t.ID, after, true, func(b partials.Batch) error {
				u.send(func() { o.add(b) })
				return ctx.Err()
			}); err == nil {
				head = end
			}
		}
		if ctx.Err() != nil { // its output is no longer shown
			return
		}
		u.send(func() {
			if errors.Is(err, tasks.ErrNotFound) {
				err = errors.New("the task does not exist any more: it expired, was forgotten, or was a call whose host has its answer")
			}
			if o.over, o.err = true, err; err == nil {
				o.task = head
			}
		})
	})
}

// again runs the tool of a task again, and shows the output of the new task.
func (u *ui) again(id string) {
	u.message = fmt.Sprintf("running %.8s again", id)
	u.start(func() {
		t, err := u.Source.Again(u.ctx, id)
		u.send(func() {
			if err != nil {
				u.message = fmt.Sprintf("%.8s is not run again: %v", id, err)
				return
			}
			if u.output != nil {
				u.output.stop()
			}
			u.table.id = t.ID // it is selected when it is listed
			u.open(t)
		})
	})
}

// cancel cancels a task, and shows the outcome.
func (u *ui) cancel(id string) {
	u.message = fmt.Sprintf("cancelling %.8s", id)
	u.start(func() {
		t, err := u.Source.Cancel(u.ctx, id)
		u.send(func() {
			switch {
			case errors.Is(err, tasks.ErrAsked):
				u.message = "the runnel that runs it has not answered (is it stopped?): it will cancel the task when it continues"
			case errors.Is(err, tasks.ErrEnded):
				u.message = fmt.Sprintf("%.8s had already ended: %s", id, t.Status)
			case err != nil:
				u.message = fmt.Sprintf("%.8s is not cancelled: %v", id, err)
			default:
				u.message = fmt.Sprintf("%.8s %s", id, mcp.TaskCancelled)
			}
			select {
			case u.relist <- struct{}{}:
			default:
			}
		})
	})
}
