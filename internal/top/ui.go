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
	// Question returns the question that a task asks, and whether its answer is yes or no.
	Question(ctx context.Context, id string) (question string, yesOrNo bool, err error)
	// Answer answers this question of a task.
	Answer(ctx context.Context, id, question string, yes bool) error
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
	refused func() // what happens with n, nil = nothing
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
				err = errors.New("the task does not exist any more: it expired, was forgotten, or was a " +
					"call whose host has its answer")
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

// ask asks the user what a task asks, or says how to answer a form.
func (u *ui) ask(id string) {
	if id == "" {
		return
	}
	u.start(func() {
		question, yesOrNo, err := u.Source.Question(u.ctx, id)
		u.send(func() {
			switch {
			case err != nil:
				u.message = err.Error()
			case !yesOrNo:
				u.message = fmt.Sprintf("answer it with runnel tasks answer %.8s: %s", id,
					term.Plain(question))
			default:
				u.confirm(fmt.Sprintf("%.8s asks: %s", id, term.Shorten(term.Plain(question))),
					func() { u.answer(id, question, true) }, func() { u.answer(id, question, false) })
			}
		})
	})
}

// answer answers the question of a task, and shows the outcome.
func (u *ui) answer(id, question string, yes bool) {
	u.start(func() {
		err := u.Source.Answer(u.ctx, id, question, yes)
		u.send(func() {
			switch {
			case err != nil:
				u.message = err.Error()
			case yes:
				u.message = fmt.Sprintf("%.8s answered: yes", id)
			default:
				u.message = fmt.Sprintf("%.8s answered: no", id)
			}
			select {
			case u.relist <- struct{}{}:
			default:
			}
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
				u.message = "the runnel that runs it has not answered (is it stopped?): it will cancel " +
					"the task when it continues"
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
