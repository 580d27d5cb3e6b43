package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// Source is where tasks are seen.
type Source interface {
	// List returns the tasks in the order in which they were made, those that run with their last line as their message.
	List(ctx context.Context) ([]tasks.Task, error)
	// Head, Tail and Cancel are those of a tasks.Runner.
	Head(ctx context.Context, id string) (tasks.Task, error)
	Tail(ctx context.Context, id string, after int64, follow bool, write func(partials.Batch) error) (tasks.Task, error)
	Cancel(ctx context.Context, id string) (tasks.Task, error)
}

// Options of Run.
type Options struct {
	Source  Source
	Where   string // the state, for people
	In, Out *os.File
	Colors  bool
	// Begun is called with what gives the terminal back, for whoever ends the process at once.
	Begun func(leave func())
}

// ui is all that is shown.
type ui struct {
	Options
	ctx    context.Context
	screen *screen
	events chan func() // run by the loop
	all    sync.WaitGroup

	// Only the loop's.
	table   table
	output  *output // nil while the table is shown
	help    bool
	asking  string // the id of the task whose cancellation is to be confirmed
	message string
	done    bool   // the user leaves
	stop    bool   // the process is to stop, as Ctrl-Z says
	typed   []byte // keys that are not complete
	relist  chan struct{}
}

// guarded gives the terminal back before a panic ends the process: its words would be lost on the other screen.
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

// send hands f to the loop. It reports false if that has ended.
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
	o := &output{task: t, follow: true, stop: stop}
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
		if ctx.Err() != nil { // another one is looked at, or none
			return
		}
		u.send(func() {
			if errors.Is(err, tasks.ErrNotFound) {
				err = errors.New("the task is gone: it has expired, was forgotten, or was a call that a host waited for and that has ended")
			}
			if o.over, o.err = true, err; err == nil {
				o.task = head
			}
		})
	})
}

// cancel cancels a task, and says what came of it.
func (u *ui) cancel(id string) {
	u.message = fmt.Sprintf("cancelling %.8s", id)
	u.start(func() {
		t, err := u.Source.Cancel(u.ctx, id)
		u.send(func() {
			switch {
			case errors.Is(err, tasks.ErrAsked):
				u.message = "the runnel that runs it has not answered (is it stopped?): it will cancel the task when it goes on"
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
