package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

const (
	// defaultPace lets lines that come one by one be stored together.
	defaultPace = 50 * time.Millisecond
	// flushAgain is when output is written again that no server has taken.
	flushAgain = time.Second
)

// Keeping is what this process stores of a task that it runs.
type Keeping struct {
	Output
	sp       *Space
	id       string
	log      *partials.Log
	segments *partials.Segments
	numbers  bool // segments get their numbers as they are stored
	end      atomic.Int64

	due   chan struct{} // capacity 1: there is something to write
	hurry chan struct{} // capacity 1: there is much
	ctx   context.Context
	stop  context.CancelFunc

	mu     sync.Mutex // held across I/O: one writes at a time, in order
	record *Record
	unsure bool // a record may have been stored since
	over   bool // the end is stored
	written
	unsent *Batch // what was sent and not acknowledged: nothing else is sent before it
}

// keeping is that of a task that this process is to run, once its record says so.
func (sp *Space) keeping(r *Record) *Keeping {
	k := &Keeping{
		sp: sp, id: r.ID, log: r.Log, segments: r.Segments, numbers: r.Merge,
		due: make(chan struct{}, 1), hurry: make(chan struct{}, 1), record: r,
	}
	k.Output = sp.Output(r.ID, k.end.Load)
	k.ctx, k.stop = context.WithCancel(sp.ctx)
	return k
}

// begin makes the task one that this process runs: what its log holds is written, and what comes.
func (k *Keeping) begin() {
	k.sp.mu.Lock()
	k.sp.live[k.id] = k
	delete(k.sp.doubtful, k.id)
	k.sp.mu.Unlock()
	k.sp.all.Go(k.run)
	k.log.Back(k)
}

// Due implements partials.Backing.
func (k *Keeping) Due(full bool) {
	wake := k.due
	if full {
		wake = k.hurry
	}
	select {
	case wake <- struct{}{}:
	default:
	}
}

// run writes output as it comes, until the task has ended.
func (k *Keeping) run() {
	var written time.Time
	for {
		select {
		case <-k.due:
		case <-k.hurry:
			written = time.Time{}
		case <-k.ctx.Done():
			return
		}
		select {
		case <-time.After(k.sp.Pace - time.Since(written)):
		case <-k.hurry:
		case <-k.ctx.Done():
			return
		}
		k.mu.Lock()
		more, err := k.store(k.ctx)
		k.mu.Unlock()
		written = time.Now()
		switch {
		case more:
			k.Due(true)
		case err == nil || k.ctx.Err() != nil:
		case errors.Is(err, tasks.ErrBusy): // it waits in memory and, when that is full, its tool does
			select {
			case <-time.After(flushAgain):
				k.Due(true)
			case <-k.ctx.Done():
			}
		default:
			k.lose(err)
		}
	}
}

// lose gives the output up: it cannot be stored.
func (k *Keeping) lose(err error) {
	k.log.Fail(err)
	if errors.Is(err, tasks.ErrFenced) {
		k.sp.fence(k)
	}
}

// flush stores all that the log has and the state has not. k.mu is held.
func (k *Keeping) flush(ctx context.Context) error {
	for {
		if more, err := k.store(ctx); err != nil || !more {
			return err
		}
	}
}

// store stores some stretches, and reports whether there may be more: a tool that writes without a pause must not keep others from k.mu,
// nor its log from being cut. k.mu is held.
func (k *Keeping) store(ctx context.Context) (more bool, err error) {
	if err := k.settle(ctx); err != nil || k.over {
		return false, err
	}
	if k.log.Failed() != nil { // it was given up
		k.unsent = nil
		return false, nil
	}
	if k.unsent == nil {
		k.unsent = k.collect()
	}
	b := k.unsent
	if b == nil {
		return false, nil
	}
	if err := k.again(ctx, func() error { return k.sp.Append(ctx, k.record, b) }); err != nil || k.over {
		return false, err
	}
	k.written, k.unsent = b.after, nil
	k.end.Store(k.written.end)
	k.log.MarkSaved()
	return b.more, nil
}

// again calls write, and again if it is refused though this process is still the keeper: what refuses it may be a write of this process that
// nobody has acknowledged, or a server that leads since a moment ago and does not know yet what the one before it has stored. k.mu is held.
func (k *Keeping) again(ctx context.Context, write func() error) error {
	err := write()
	if !errors.Is(err, tasks.ErrFenced) {
		return err
	}
	k.unsure = true
	if err := k.settle(ctx); err != nil || k.over {
		return err
	}
	if err = write(); errors.Is(err, tasks.ErrFenced) {
		err = Away{fmt.Errorf("the state refuses it as if another runnel had taken the task: %s", err)}
	}
	return err
}

// settle finds out whether a record was stored that nobody has acknowledged: others may have seen it. k.mu is held.
func (k *Keeping) settle(ctx context.Context) error {
	if !k.unsure {
		return nil
	}
	r, err := k.sp.Read(ctx, k.id)
	if errors.Is(err, tasks.ErrNotFound) || err == nil && r.Stored.Writer != k.sp.Keeper {
		err = tasks.ErrFenced
	}
	if err != nil {
		return err
	}
	k.record.Revision, k.unsure, k.over = r.Revision, false, r.Terminal()
	return nil
}

// put stores a later state of a task of this process. All that the log holds is stored before a terminal one, and so is the outcome.
func (k *Keeping) put(ctx context.Context, t *tasks.Task) (err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ended := t.Status.Terminal()
	defer func() {
		if ended && (err == nil || errors.Is(err, tasks.ErrFenced)) {
			k.sp.forget(k.id)
		}
	}()
	switch {
	case ended:
		err = k.flush(ctx)
	case k.unsent != nil: // it was sent for the record that is still there
		_, err = k.store(ctx)
	default:
		err = k.settle(ctx)
	}
	switch {
	case err != nil:
		return err
	case k.over: // by a try that nobody has acknowledged: others may have seen it
		return k.sp.Unmark(ctx, Mark{ID: k.id, Keeper: k.sp.Keeper})
	case t.Status == mcp.TaskCompleted && k.log.Failed() != nil:
		return k.log.Failed()
	}
	r, hidden := *k.record, k.record.Stored.Hidden
	r.Task, r.Stored.Hidden = *t, false
	r.put(k.sp.Keeper)
	err = k.again(ctx, func() error {
		r.Revision = k.record.Revision
		if !ended {
			return k.sp.Write(ctx, &r, hidden)
		}
		r.Stored.End, r.Stored.Numbered = k.written.end, k.numbered
		return k.sp.end(ctx, &r, hidden)
	})
	k.unsure = errors.Is(err, tasks.ErrBusy)
	if err != nil {
		return err
	}
	k.record = &r
	if hidden && !ended && !k.log.Backed() { // it could not be written once
		k.log.Back(k)
	}
	return nil
}

// resume lets a task go on whose worker is gone: its output after what that one has stored, its segments after the numbers that it has given.
func (k *Keeping) resume(ctx context.Context) error {
	r := k.record
	if err := k.sp.Measure(ctx, r); err != nil || r.End == 0 {
		return err
	}
	ends, err := k.sp.Ends(ctx, r, 0, 0)
	if err != nil {
		return err
	}
	k.written = written{end: r.End, numbered: len(ends), head: r.Head, middle: r.Head}
	if len(ends) > 0 {
		k.last = ends[len(ends)-1]
	}
	k.end.Store(r.End)
	k.log.Resume(r.End)
	k.segments.Continue(ends)
	return nil
}
