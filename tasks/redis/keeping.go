package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"runnel/partials"
	"runnel/tasks"
)

const (
	stretchBytes  = 64 << 10
	someStretches = 8      // are stored in one go
	mostCut       = 10_000 // stretches are let go of in one go: short ones are many, and the server does nothing else meanwhile
	// pace is the least time between two writes of a task's output, unless there is much of it: lines that come one by one share an entry.
	pace = 50 * time.Millisecond
	// flushAgain is when output is written again that no server has taken.
	flushAgain = time.Second
)

// keeping is what this process stores of a task that it runs.
type keeping struct {
	output
	log      *partials.Log
	segments *partials.Segments
	numbers  bool // segments get their numbers as they are stored

	due   chan struct{} // capacity 1: there is something to write
	hurry chan struct{} // capacity 1: there is much
	ctx   context.Context
	stop  context.CancelFunc

	mu     sync.Mutex // held across I/O: one writes at a time, in order
	task   *tasks.Task
	hidden bool
	writes int64 // of the record
	unsure bool  // the end may be stored
	written
	unsent *batch // what was sent and not answered: nothing else is sent before it
}

// written is how much of a task's output is stored.
type written struct {
	end      int64
	numbered int     // how many segments have stored numbers
	last     int64   // where the last of them ends
	head     int64   // where the head of a long log ends, 0 if it is not long
	middle   int64   // where what is kept after it begins
	tail     []int64 // where the stretches after that end
}

// kept is how many bytes are stored.
func (w *written) kept() int64 { return w.end - (w.middle - w.head) }

// batch is some output that is stored in one go.
type batch struct {
	args  []string // of append.lua
	after written
	more  bool // there may be more
}

// keep makes a task one that this process runs.
func (sp *space) keep(t tasks.Task, hidden bool, writes int64) *keeping {
	k := &keeping{
		output: output{sp, t.ID}, log: t.Log, segments: t.Segments, numbers: t.Merge,
		due: make(chan struct{}, 1), hurry: make(chan struct{}, 1), task: &t, hidden: hidden, writes: writes,
	}
	k.ctx, k.stop = context.WithCancel(sp.ctx)
	sp.mu.Lock()
	sp.live[t.ID] = k
	delete(sp.doubtful, t.ID)
	sp.mu.Unlock()
	sp.all.Go(k.run)
	t.Log.Back(k)
	return k
}

// keeping is what this process has of a task that it runs, nil if it does not.
func (sp *space) keeping(id string) *keeping {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return sp.live[id]
}

// forget ends the keeping of a task, which has ended or has another keeper.
func (sp *space) forget(id string) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if k := sp.live[id]; k != nil {
		k.stop()
	}
	delete(sp.live, id)
	delete(sp.fenced, id)
}

// Due implements partials.Backing.
func (k *keeping) Due(full bool) {
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
func (k *keeping) run() {
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
		case <-time.After(pace - time.Since(written)):
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
func (k *keeping) lose(err error) {
	k.log.Fail(err)
	if errors.Is(err, tasks.ErrFenced) {
		k.sp.mu.Lock()
		if k.sp.live[k.id] == k {
			k.sp.fenced[k.id] = struct{}{}
		}
		k.sp.mu.Unlock()
		k.sp.s.notice()
	}
}

// flush stores all that the log has and the state has not. k.mu is held.
func (k *keeping) flush(ctx context.Context) error {
	for {
		if more, err := k.store(ctx); err != nil || !more {
			return err
		}
	}
}

// store stores some stretches, and reports whether there may be more: a tool that writes without a pause must not keep others from k.mu,
// nor its log from being cut. k.mu is held.
func (k *keeping) store(ctx context.Context) (more bool, err error) {
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
	said, err := k.sp.call(ctx, "append", k.id, k.sp.left(k.task), b.args...)
	if err == nil && said == "lost" {
		err = tasks.Trouble{Err: fmt.Errorf("the state at %s has lost output that it had stored: it was restarted without its data, or a replica has taken its place", k.sp.s.o.Server)}
	}
	if err != nil {
		return false, err
	}
	k.written, k.unsent = b.after, nil
	k.log.MarkSaved()
	return b.more, nil
}

// collect makes a batch of what is not stored, nil if there is nothing. k.mu is held.
func (k *keeping) collect() *batch {
	limit, size := k.log.Limit(), int64(stretchBytes)
	if limit > 0 {
		size = max(min(size, limit/16), 1) // head and tail are kept in whole stretches
	}
	after := k.written
	after.tail = slices.Clip(after.tail)
	var stretches []string
	n := 0
	for ; n < someStretches; n++ {
		e, ok := k.log.Unsaved(int(size))
		if !ok {
			break
		}
		stretches = append(stretches, strconv.FormatInt(e.End(), 10), string(e.Marks), string(e.Data))
		after.grow(e.End(), limit)
	}
	numbers := k.number(&after)
	if n == 0 && numbers[0] == "" {
		return nil
	}
	cut := after.cut(limit)
	args := slices.Concat([]string{strconv.FormatInt(k.end, 10), strconv.FormatInt(after.end, 10)}, numbers, []string{strconv.Itoa(len(cut))}, cut, stretches)
	return &batch{args: args, after: after, more: n == someStretches}
}

// grow notes a stretch up to a position.
func (w *written) grow(end, limit int64) {
	w.end = end
	switch {
	case w.head > 0:
		w.tail = append(w.tail, end)
	case limit > 0 && end >= limit/8*3:
		w.head, w.middle = end, end
	}
}

// number returns the numbers that were given to segments, as append.lua takes them.
func (k *keeping) number(w *written) []string {
	if k.numbers {
		k.segments.Number(w.end)
	}
	given := k.segments.Given(w.numbered, w.end)
	if len(given) == 0 {
		return []string{"", "", ""}
	}
	first, data := w.numbered+1, partials.EncodeEnds(w.last, given)
	w.numbered, w.last = w.numbered+len(given), given[len(given)-1]
	return []string{strconv.Itoa(w.numbered), strconv.Itoa(first), string(data)}
}

// cut lets go of the middle of a log that is longer than its limit, down to three quarters of it: not for each stretch anew. It returns the
// stretches, by where they end.
func (w *written) cut(limit int64) (gone []string) {
	if limit <= 0 || w.kept() <= limit {
		return nil
	}
	for to := w.end - limit/8*3; len(w.tail) > 0 && w.tail[0] <= to && len(gone) < mostCut; w.tail = w.tail[1:] {
		gone = append(gone, strconv.FormatInt(w.tail[0], 10))
		w.middle = w.tail[0]
	}
	return gone
}
