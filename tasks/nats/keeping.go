package nats

import (
	"context"
	"encoding/base64"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runnel/partials"
	"runnel/tasks"
)

// The headers of a stretch of output, and of numbers of segments.
const (
	startHeader = "Runnel-Start" // the position of its first byte
	marksHeader = "Runnel-Marks" // partials.Extent.Marks, in base64
	firstHeader = "Runnel-First" // the first number
)

const (
	stretchBytes  = 64 << 10
	someStretches = 8 // are stored in one go
	// pace is the least time between two writes of a task's output, unless there is much of it: lines that come one by one share a message.
	pace = 50 * time.Millisecond
	// flushAgain is when output is written again that no server has acknowledged.
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

	mu       sync.Mutex // held across I/O: one writes at a time, in order
	task     *tasks.Task
	record   stored
	revision uint64
	unsure   bool      // a record may have been stored since
	over     bool      // the end is stored
	unacked  *nats.Msg // what was sent and not acknowledged; nothing else is sent before it
	numbered int       // how many segments have stored numbers
	last     int64     // where the last of them ends
	head     int64     // where the head of a long log ends, 0 if it is not long
	tail     []place   // the stretches after it
	kept     int64     // bytes that are stored
}

// place is where a stretch stands.
type place struct {
	start    int64
	sequence uint64
}

// keeping is that of a task that this process is to run, once its record says so.
func (sp *space) keeping(t tasks.Task, r stored) *keeping {
	k := &keeping{
		output: output{sp: sp, id: t.ID}, log: t.Log, segments: t.Segments, numbers: t.Merge,
		due: make(chan struct{}, 1), hurry: make(chan struct{}, 1), task: &t, record: r,
	}
	k.ctx, k.stop = context.WithCancel(sp.ctx)
	return k
}

// begin makes the task one that this process runs: what its log holds is written, and what comes.
func (k *keeping) begin() {
	k.sp.mu.Lock()
	k.sp.live[k.id] = k
	delete(k.sp.doubtful, k.id)
	k.sp.mu.Unlock()
	k.sp.all.Go(k.run)
	k.log.Back(k)
}

// forget ends the keeping of a task, which has ended or has another keeper.
func (sp *space) forget(id string) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if k := sp.live[id]; k != nil {
		k.stop()
	}
	delete(sp.live, id)
	delete(sp.wanted, id)
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

// flush stores all that the log has and the stream has not. k.mu is held.
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
	if err := k.resend(ctx); err != nil {
		return false, err
	}
	limit, size := k.log.Limit(), int64(stretchBytes)
	if limit > 0 {
		size = max(min(size, limit/16), 1) // head and tail are kept in whole stretches
	}
	stored := 0
	for ; stored < someStretches; stored++ {
		e, ok := k.log.Unsaved(int(size))
		if !ok {
			break
		}
		if err := k.append(ctx, &e, limit); err != nil {
			return false, err
		}
	}
	if err := k.number(ctx); err != nil || stored == 0 {
		return false, err
	}
	k.sp.wake(k.id)
	k.cut(ctx, limit)
	return stored == someStretches, nil
}

// append stores a stretch.
func (k *keeping) append(ctx context.Context, e *partials.Extent, limit int64) error {
	part := "log.head"
	if k.head > 0 {
		part = "log.tail"
	}
	m := nats.NewMsg(k.sp.subject(k.id, part))
	m.Header.Set(startHeader, strconv.FormatInt(e.Start, 10))
	m.Header.Set(marksHeader, base64.StdEncoding.EncodeToString(e.Marks))
	m.Data = e.Data
	sequence, err := k.send(ctx, m)
	if k.head > 0 {
		k.tail = append(k.tail, place{e.Start, sequence}) // 0 if it is not known
	}
	k.kept += int64(len(e.Data))
	k.end.Store(e.End())
	if k.head == 0 && limit > 0 && e.End() >= limit/8*3 {
		k.head = e.End()
	}
	return err
}

// number stores the numbers that were given to segments.
func (k *keeping) number(ctx context.Context) error {
	if k.numbers {
		k.segments.Number(k.end.Load())
	}
	given := k.segments.Given(k.numbered, k.end.Load())
	if len(given) == 0 || k.log.Failed() != nil { // some of what they number may not be stored
		return nil
	}
	m := nats.NewMsg(k.sp.subject(k.id, "ends"))
	m.Header.Set(firstHeader, strconv.Itoa(k.numbered+1))
	m.Data = partials.EncodeEnds(k.last, given)
	k.numbered, k.last = k.numbered+len(given), given[len(given)-1]
	_, err := k.send(ctx, m)
	return err
}

// cut deletes the middle of a log that is longer than its limit, down to three quarters of it: not for each stretch anew.
func (k *keeping) cut(ctx context.Context, limit int64) {
	if limit <= 0 || k.kept <= limit {
		return
	}
	to, n := k.end.Load()-limit/8*3, 0
	for i := 1; i < len(k.tail) && k.tail[i].start <= to; i++ {
		if k.tail[i].sequence != 0 { // up to 0 would be all
			n = i
		}
	}
	if n == 0 {
		return
	}
	gone := k.tail[n].start - k.tail[0].start
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	if err := k.sp.stream.Purge(ctx, jetstream.WithPurgeSubject(k.sp.subject(k.id, "log.tail")), jetstream.WithPurgeSequence(k.tail[n].sequence)); err != nil {
		return // the next stretch tries again
	}
	k.tail = k.tail[n:]
	k.kept -= gone
}

// send stores a message of the task's output, if this process is still its keeper. One that is not acknowledged is kept, and sent again
// before any other: the server knows it by its id, and stores it once. k.mu is held.
func (k *keeping) send(ctx context.Context, m *nats.Msg) (uint64, error) {
	m.Header.Set(jetstream.MsgIDHeader, uuid.NewString())
	k.unacked = m
	sequence, err := k.sp.publish(ctx, m, jetstream.WithExpectLastSequenceForSubject(k.revision, k.sp.subject(k.id, "task")), k.sp.expiring(k.task))
	if err == nil {
		k.unacked = nil
		k.log.MarkSaved()
	}
	return sequence, err
}

// resend finds out whether a record was stored that nobody has acknowledged, and stores the output of which that is not known. k.mu is held.
func (k *keeping) resend(ctx context.Context) error {
	if k.unsure {
		r, err := k.sp.record(ctx, k.id)
		if errors.Is(err, tasks.ErrNotFound) || err == nil && r.Writer != k.sp.s.keeper {
			err = tasks.ErrFenced
		}
		if err != nil {
			return err
		}
		k.revision, k.unsure, k.over = r.revision, false, r.terminal()
	}
	if k.log.Failed() != nil { // it was given up
		k.unacked = nil
	}
	if k.unacked == nil {
		return nil
	}
	m := k.unacked
	_, err := k.sp.publish(ctx, m, jetstream.WithExpectLastSequenceForSubject(k.revision, k.sp.subject(k.id, "task")), k.sp.expiring(k.task))
	if err == nil {
		k.unacked = nil
		k.log.MarkSaved()
	}
	return err
}
