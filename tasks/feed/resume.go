package feed

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/rs/zerolog"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
)

// Resumer continues feeds after a mark, for clients that have lost their connections.
type Resumer struct {
	Runner  *run.Runner
	Deliver partials.DeliverOptions
	Log     zerolog.Logger
}

// rest is what follows after a mark. It reads the task's log, whether the task runs here, runs in another
// process, or has ended. What is not part of the task, such as its progress and its questions, is not
// repeated.
type rest struct {
	place
	*Resumer
	caller *rpc.Caller
}

// Resume implements rpc.Server.HandleResume.
func (s *Resumer) Resume(ctx context.Context, mark string) (func(context.Context, *rpc.Caller), error) {
	p, err := parseMark(mark)
	if err == nil {
		_, err = s.Runner.Head(ctx, p.Task)
	}
	switch {
	case errors.Is(err, errMark), errors.Is(err, tasks.ErrNotFound):
		return nil, rpc.ErrNoStream
	case err != nil:
		return nil, err
	}
	return func(open context.Context, c *rpc.Caller) {
		release := c.Hold()
		if !s.Runner.Go(func(ctx context.Context) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(open, cancel)()
			err := (&rest{p, s, c}).run(ctx)
			if ctx.Err() != nil { // the server or the stream has ended
				return
			}
			release()
			if err != nil {
				s.Log.Warn().Err(err).Str("taskId", p.Task).Msg("a stream cannot be resumed to its end")
			}
		}) {
			release()
		}
	}, nil
}

// run writes the rest: output and status changes and, when the task has ended, the end of the dialect and the
// terminal status.
func (r *rest) run(ctx context.Context) error {
	if r.closing == closed {
		return nil
	}
	runner := r.Runner
	v, release, err := runner.Follow(ctx, r.Task)
	if err != nil {
		return err
	}
	defer release()
	var t tasks.Task
	if v != nil {
		if err := r.follow(ctx, v); err != nil {
			return err
		}
		t = v.Task() // not from the state, which forgets a task when its ttl is over
		if !t.Status.Terminal() {
			return nil // the server is stopping
		}
	}
	if stored, err := runner.Get(ctx, r.Task); err == nil {
		t = stored
	} else if v == nil {
		return err
	}
	if v == nil && r.Spelling != ByProgress { // otherwise it would show only the last line of what is over
		if err := r.write(ctx, t.Log, t.Segments); err != nil {
			return err
		}
	}
	return r.end(ctx, &t)
}

// dialect returns the dialect of the output, as far as it was written; nil if the caller has no marks.
func (r *rest) dialect(segments *partials.Segments) *marked {
	c := r.caller
	ending := func() partials.Ending { return r.ending(c.Version, segments) }
	d := r.origin.dialect(c, r.progress(c), segments, ending)
	d.Resume(r.count)
	return newMarked(c, d, r.origin, r.pos)
}

// follow writes the output and the status changes of a task until it has ended.
func (r *rest) follow(ctx context.Context, v *run.View) error {
	changes, stop := v.Watch()
	defer stop()
	before := mcp.TaskWorking
	output := func(ctx context.Context) error { return r.write(ctx, v.Log(), v.Segments()) }
	return Follow(ctx, v, changes, output, func() {
		if t := v.Task(); t.Status != before && !t.Status.Terminal() {
			before = t.Status
			// It fails only if the client has closed.
			_ = r.caller.TryNotify("notifications/tasks/status", r.Runner.Wire(&t))
		}
	})
}

// Follow writes a task's output, and calls changed while the task waits for input and whenever it has
// changed, until the task has ended and all of the output is written. It returns early if output fails.
func Follow(ctx context.Context, v *run.View, changes <-chan struct{},
	output func(context.Context) error, changed func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var writing sync.WaitGroup
	writing.Go(func() {
		if err := output(ctx); err != nil {
			cancel(err)
		}
	})
	defer writing.Wait()
	if v.Task().Status == mcp.TaskInputRequired {
		changed()
	}
	for {
		select {
		case <-changes:
			changed()
		case <-v.Ended():
			writing.Wait()
			return context.Cause(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// write writes the output from r.pos on until the log is closed, and notes how far it has come. It leaves the
// end of the dialect to end, since the result may be unknown here.
func (r *rest) write(ctx context.Context, log *partials.Log, segments *partials.Segments) error {
	m := r.dialect(segments)
	if m == nil {
		return errMark
	}
	// The process that runs the task may have sent more than it has stored by now. If it was killed, it never
	// stores that, and the log is closed with the task's end.
	if r.Spelling != ByProgress {
		if err := log.Grown(ctx, r.pos-1); err != nil && err != io.EOF {
			return err
		}
	}
	pos := min(r.pos, log.Size())
	if r.Spelling == SEP1905 { // all later numbers are written with the first output that is read
		unsent := segments.EndOf(r.count)
		if r.closing > 0 && pos-unsent > mcp.MaxContent {
			return errMark
		}
		if r.closing == 0 {
			pos = min(pos, unsent)
		}
	}
	var err error
	if r.Spelling == ByProgress {
		err = partials.DeliverLastLine(ctx, log, endless{m}, r.caller, r.Deliver.Pace, false)
	} else {
		err = partials.Deliver(ctx, log.NewReader(pos), endless{m}, r.caller, r.Deliver)
	}
	r.pos, r.count = m.pos, m.Count()
	return err
}

// endless is a dialect without its end.
type endless struct{ *marked }

func (endless) End(dst []byte) []byte { return dst }

// end writes what comes after the output of a task that has ended.
func (r *rest) end(ctx context.Context, t *tasks.Task) error {
	m := r.dialect(t.Segments)
	if m == nil {
		return errMark
	}
	err := r.caller.Write(ctx, func(dst []byte) []byte { return m.closing(dst, r.closing) })
	if err != nil {
		return err
	}
	return r.caller.Marked(m.last()).Notify("notifications/tasks/status", r.Runner.Wire(t))
}
