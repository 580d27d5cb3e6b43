package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"runnel/internal/pause"
	"runnel/internal/signal"
	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// flushAgain is the pause before output that no server has taken is sent again.
const flushAgain = time.Second

// backing returns the backing of a task that this process will run once its record says so.
func (sp *Space) backing(r *Record) *backing {
	k := &backing{
		sp: sp, id: r.ID, log: r.Log, segments: r.Segments, numbers: r.Merge,
		due: signal.NewWake(), hurry: signal.NewWake(), record: r,
	}
	if r.Stored.Offer != nil {
		k.front = r.Stored.Offer.Front
	}
	k.seen.Store(!r.Hidden)
	k.Output = sp.Output(r.ID, k.end.Load)
	k.ctx, k.stop = context.WithCancel(sp.ctx)
	return k
}

// begin starts writing the log of a task that this process now runs.
func (k *backing) begin() {
	k.sp.mu.Lock()
	k.sp.live[k.id] = k
	delete(k.sp.unanswered, k.id)
	k.sp.mu.Unlock()
	k.sp.Go(func(context.Context) { k.run() }) // k.ctx ends with the space's, or before
	k.log.Back(k)
}

// Due implements partials.Backing.
func (k *backing) Due(full bool) {
	wake := k.due
	if full {
		wake = k.hurry
	}
	wake.Send()
}

// run writes output as it comes, until the task has ended.
func (k *backing) run() {
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
		case errors.Is(err, tasks.ErrBusy):
			// The output waits in memory and, when that is full, so does the tool.
			if pause.For(k.ctx, flushAgain) {
				k.Due(true)
			}
		default:
			k.lose(err)
		}
	}
}

// lose gives up the output because it cannot be stored.
func (k *backing) lose(err error) {
	k.log.Fail(err)
	if errors.Is(err, tasks.ErrFenced) {
		k.sp.fence(k)
	}
}

// flush stores everything that is in the log and not in the state. k.mu is held.
func (k *backing) flush(ctx context.Context) error {
	for {
		if more, err := k.store(ctx); err != nil || !more {
			return err
		}
	}
}

// store stores some extents, and reports whether there may be more. It does not store all at once, since a
// tool that writes without pause must not keep others from k.mu, nor its log from being cut. k.mu is held.
func (k *backing) store(ctx context.Context) (more bool, err error) {
	if err := k.settle(ctx); err != nil || k.over {
		return false, err
	}
	if k.log.Failed() != nil { // the output was given up
		k.unsent = nil
		return false, nil
	}
	resent := k.unsent != nil // the log may have grown since then
	if !resent {
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
	return b.more || resent, nil
}

// again calls write, and calls it again if it is refused though this process still is the keeper: the reason
// may be an unacknowledged write of this process, or a server that has just become the leader and does not
// know yet what the one before has stored. k.mu is held.
func (k *backing) again(ctx context.Context, write func() error) error {
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

// settle finds out whether an unacknowledged record was stored, since others may have seen it. k.mu is held.
func (k *backing) settle(ctx context.Context) error {
	if !k.unsure {
		return nil
	}
	r, err := k.sp.Read(ctx, k.id)
	switch {
	case errors.Is(err, tasks.ErrNotFound) || err == nil && r.Stored.Writer != k.sp.Keeper:
		return tasks.ErrFenced
	case err == nil && k.record.Stored.Offer != nil && r.Waits():
		// A worker has handed it back, and another one may run it.
		return tasks.ErrFenced
	case err != nil:
		return err
	}
	k.record.Revision = r.Revision
	k.unsure = false
	k.over = r.Terminal()
	return nil
}

// mine reports whether this process is still, and remains, the keeper of a task that it has offered to
// others. An unacknowledged offer may still be on its way: writing the record again makes the server refuse
// it.
func (k *backing) mine(ctx context.Context) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r, err := k.sp.Read(ctx, k.id)
	if errors.Is(err, tasks.ErrNotFound) || err == nil && r.Stored.Keeper != k.sp.Keeper {
		return false, nil
	}
	if err != nil || !k.unsure {
		return err == nil, err
	}
	again := *k.record
	again.Revision = r.Revision
	if err := k.sp.Write(ctx, &again, false); errors.Is(err, tasks.ErrFenced) {
		return false, Away{fmt.Errorf("the state refuses it as if the offer had just come: %s", err)}
	} else if err != nil {
		return false, err
	}
	k.record, k.unsure = &again, false
	return true, nil
}

// put stores a later version of a task of this process. Everything in the log is stored before a terminal
// one.
func (k *backing) put(ctx context.Context, t *tasks.Task) (err error) {
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
	case k.over: // an unacknowledged try has succeeded, and others may have seen it
		return k.sp.Unmark(ctx, Mark{ID: k.id, Keeper: k.sp.Keeper})
	case t.Status == mcp.TaskCompleted && k.log.Failed() != nil:
		return k.log.Failed()
	}
	if ended && k.record.Hidden { // it becomes visible first
		visible := *t
		visible.Status = mcp.TaskWorking
		if err := k.write(ctx, &visible); err != nil {
			return err
		}
	}
	return k.write(ctx, t)
}

// write stores a record. k.mu is held.
func (k *backing) write(ctx context.Context, t *tasks.Task) error {
	r, wasHidden := *k.record, k.record.Hidden
	r.Task, r.Hidden = *t, false
	k.seen.Store(true)
	r.put(k.sp.Keeper)
	err := k.again(ctx, func() error {
		r.Revision = k.record.Revision
		if !t.Status.Terminal() {
			return k.sp.Write(ctx, &r, wasHidden)
		}
		r.Stored.End, r.Stored.Numbered = k.written.end, k.numbered
		return k.sp.end(ctx, &r)
	})
	k.unsure = errors.Is(err, tasks.ErrBusy)
	if err != nil {
		return err
	}
	k.record = &r
	if wasHidden && !k.log.Backed() { // it could not be written once
		k.log.Back(k)
	}
	return nil
}

// resume continues a task whose worker is gone: its output after what that worker has stored, and its
// segments after their last number.
func (k *backing) resume(ctx context.Context) error {
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

const (
	mostExtents = 8 // stored at once
	// This many extents are dropped in one request: there may be many short ones, and a server may do nothing
	// else while it drops them.
	mostCut = 10_000
)

// Batch is output of a task that is stored at once, from one position to another.
type Batch struct {
	From, To int64
	Extents  []partials.Extent
	// Extents from this position on are the tail of a long log, some of which is cut out later; 0 = no tail.
	Head int64
	// Cut are the dropped extents of the tail, by where they end: everything between Head and the last of
	// them.
	Cut []int64

	Numbers []byte // where segments end, from partials.EncodeEnds; nil = none
	First   int    // the number of the first of those segments
	Last    int    // and of the last

	after written
	more  bool // there may be more
}

// Tail reports whether an extent belongs to the tail of a long log.
func (b *Batch) Tail(e *partials.Extent) bool { return b.Head > 0 && e.Start >= b.Head }

// written is how much of a task's output is stored.
type written struct {
	end      int64
	numbered int     // how many segments have stored numbers
	last     int64   // where the last of them ends
	head     int64   // where the head of a long log ends, 0 if it is not long
	middle   int64   // where the part after the cut begins
	tail     []int64 // where the extents after that end
}

// kept returns how many bytes are stored.
func (w *written) kept() int64 { return w.end - (w.middle - w.head) }

// grow notes a stored extent up to a position.
func (w *written) grow(end, limit int64) {
	w.end = end
	switch {
	case w.head > 0:
		w.tail = append(w.tail, end)
	case limit > 0 && end >= limit/8*3:
		w.head, w.middle = end, end
	}
}

// cut drops the middle of a log that is longer than its limit, down to three quarters of the limit, so that
// not every extent needs a cut. It returns the dropped extents, by where they end.
func (w *written) cut(limit int64) (gone []int64) {
	if limit <= 0 || w.kept() <= limit {
		return nil
	}
	for to := w.end - limit/8*3; len(w.tail) > 0 && w.tail[0] <= to &&
		len(gone) < mostCut; w.tail = w.tail[1:] {
		gone = append(gone, w.tail[0])
		w.middle = w.tail[0]
	}
	return gone
}

// collect makes a batch of output that is not stored yet, nil if there is none. k.mu is held.
func (k *backing) collect() *Batch {
	limit, size := k.log.Limit(), k.log.ExtentSize()
	b := &Batch{From: k.written.end, after: k.written}
	b.after.tail = slices.Clip(b.after.tail)
	for len(b.Extents) < mostExtents {
		e, ok := k.log.Unsaved(size)
		if !ok {
			break
		}
		b.Extents = append(b.Extents, e)
		b.after.grow(e.End(), limit)
	}
	b.To = b.after.end
	b.Head = b.after.head
	b.more = len(b.Extents) == mostExtents
	k.number(b)
	if len(b.Extents) == 0 && b.Numbers == nil {
		return nil
	}
	b.Cut = b.after.cut(limit)
	return b
}

// number adds the numbers that segments have got.
func (k *backing) number(b *Batch) {
	w := &b.after
	if k.numbers {
		k.segments.Number(w.end)
	}
	if given := k.segments.Given(w.numbered, w.end); len(given) > 0 {
		b.First, b.Numbers = w.numbered+1, partials.EncodeEnds(w.last, given)
		w.numbered, w.last = w.numbered+len(given), given[len(given)-1]
		b.Last = w.numbered
	}
}
