package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

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

const (
	// listPace is how often the tasks are listed, and how long at least that rests after a list for each tenth of its time: one that
	// takes long must not be all that the state does.
	listPace = time.Second
	listRest = 10
	// paintPace is the least time between two frames: more than 30 a second nobody sees.
	paintPace = 30 * time.Millisecond
	// keyWait is how long the rest of a key's sequence may take; after it an escape is the key.
	keyWait = 50 * time.Millisecond
)

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

// Run shows the tasks until the user leaves, and then gives the terminal back. It returns ctx's error if that ends it.
func Run(ctx context.Context, o Options) error {
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	u := &ui{Options: o, ctx: ctx, screen: &screen{in: o.In, out: o.Out, colors: o.Colors}, events: make(chan func()), relist: make(chan struct{}, 1)}
	u.table.where = o.Where
	said := newSignals()
	defer said.end()
	if err := u.screen.enter(); err != nil {
		return fmt.Errorf("taking the terminal: %w", err)
	}
	defer u.screen.leave() // also when something panics here
	o.Begun(u.screen.leave)
	u.start(u.list)
	go u.guarded(u.read)
	err := u.loop(said)
	cancel()
	u.all.Wait()
	return errors.Join(err, outer.Err())
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

// loop does what happens, one after the other, until the user leaves.
func (u *ui) loop(said *signals) error {
	var painted time.Time
	late, paint := time.NewTimer(0), time.NewTimer(0)
	for !u.done {
		if rest := paintPace - time.Since(painted); rest > 0 {
			paint.Reset(rest)
		} else if err := u.paint(); err != nil {
			return nil // nobody looks any more
		} else {
			painted = time.Now()
		}
		select {
		case f := <-u.events:
			f()
			if len(u.typed) > 0 {
				late.Reset(keyWait)
			}
		case <-late.C:
			u.keys(true)
		case <-paint.C:
		case <-said.resized:
			u.screen.redraw()
		case <-said.goOn: // whoever stopped the process may have changed the terminal
			if err := u.screen.enter(); err != nil {
				return err
			}
		case <-u.ctx.Done():
			return nil
		}
		if u.stop {
			u.stop = false
			u.screen.leave()
			said.wait()
			if err := u.screen.enter(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (u *ui) paint() error {
	width, height := u.screen.size()
	now := time.Now()
	var rows []row
	foot := row{{"q quit  Enter follow  c cancel  ? help", dim}}
	switch {
	case u.help:
		rows, foot = help, row{{"any key goes back", dim}}
	case u.output != nil:
		if t := u.table.find(u.output.task.ID); t != nil && !u.output.over {
			u.output.task = *t
		}
		rows, foot = u.output.show(width, height, now), u.output.foot()
	default:
		rows = u.table.rows(width, height, now)
	}
	switch {
	case u.asking != "":
		foot = row{safe(fmt.Sprintf("cancel %.8s? y/n", u.asking), yellow)}
	case u.message != "":
		foot = row{safe(u.message, yellow)}
	}
	return u.screen.paint(fill(rows, height, foot))
}

// list asks for the tasks again and again.
func (u *ui) list() {
	for {
		began := time.Now()
		list, err := u.Source.List(u.ctx)
		took := time.Since(began)
		if !u.send(func() {
			if u.table.failed = err; err == nil {
				u.table.update(list)
			}
		}) {
			return
		}
		select {
		case <-u.relist:
		case <-time.After(max(listPace, listRest*took)):
		case <-u.ctx.Done():
			return
		}
	}
}

// read hands the loop what is typed.
func (u *ui) read() {
	for {
		typed := make([]byte, 256)
		n, err := u.In.Read(typed)
		if !u.send(func() {
			u.typed = append(u.typed, typed[:n]...)
			u.keys(false)
			u.done = u.done || err != nil && n == 0 // the terminal is gone
		}) || err != nil && n == 0 {
			return
		}
	}
}

// keys does what the keys say that have been typed.
func (u *ui) keys(late bool) {
	for len(u.typed) > 0 {
		k, n := readKey(u.typed, late)
		if n == 0 {
			return
		}
		u.typed = u.typed[n:]
		u.press(k)
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
				u.message = fmt.Sprintf("%.8s had ended before: %s", id, t.Status)
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
