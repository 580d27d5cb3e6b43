package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"runnel/rpc/mcp"
	"runnel/tasks"
)

// Queue is what an engine keeps of tasks that wait for a worker, beside their records. What it shows is a hint, and the record decides:
// what is lost of it is shown again by a sweep, and one too many finds a task that does not wait.
type Queue interface {
	// Waiting returns the ids of the tasks that are marked as waiting.
	Waiting(ctx context.Context) ([]string, error)
	// PutWaiting marks a task as waiting and stores its record, which says so, sets r.Revision, and takes away the mark of the keeper before.
	PutWaiting(ctx context.Context, r *Record, before string) error
	// Show lets workers see a task that waits. What is not shown now is shown by a sweep.
	Show(ctx context.Context, r *Record)
	// Unshow takes a task away from workers that does not wait any more.
	Unshow(ctx context.Context, r *Record)
	// Shown returns what workers can see: ids by class, in the order in which they wait.
	Shown(ctx context.Context) (map[string][]string, error)
}

// QueueKeeper is the keeper of tasks that wait for a worker.
const QueueKeeper = "queue"

// Waiting is what the record of a task says that was offered to workers.
type Waiting struct {
	Class   string `json:"class"`
	Since   int64  `json:"since"`   // when it was offered last
	Timeout int64  `json:"timeout"` // nanoseconds, from then on
	Retries int    `json:"retries,omitempty"`
	Attempt int    `json:"attempt,omitempty"` // how often workers have taken it
}

const (
	// AckWait is how long a worker may take from the offer of a task until it has taken it.
	AckWait = 30 * time.Second
	// lineTime is how long it is believed what waits, where its number is only shown, and lineTimeEach how much longer for each task in line:
	// to look costs as much as there is.
	lineTime     = 250 * time.Millisecond
	lineTimeEach = time.Millisecond
)

// Waits reports whether a task waits for a worker.
func (r *Record) Waits() bool {
	return r.Stored.Keeper == QueueKeeper && r.Stored.Offer != nil && !r.Terminal()
}

// overdue reports whether a task has waited for too long.
func (r *Record) overdue(now time.Time) bool {
	return r.Waits() && now.After(time.Unix(0, r.Stored.Offer.Since+r.Stored.Offer.Timeout))
}

// Expire ends a task that has waited for too long, and reports whether it has.
func (sp *Space) Expire(ctx context.Context, r *Record) (bool, error) {
	if !r.overdue(sp.Now()) {
		return false, nil
	}
	return true, sp.endOverdue(ctx, r)
}

// Lookup returns a task as it waits, for a worker that was shown it.
func (sp *Space) Lookup(ctx context.Context, id string) (*Record, error) {
	_, r, err := sp.find(ctx, sp.Owner, id)
	return r, err
}

// Offer lets a task of this process wait for a worker. body stores what the worker is told.
func (sp *Space) Offer(ctx context.Context, id string, o tasks.Offer, body func(t *tasks.Task) error) error {
	k := sp.kept(id)
	if k == nil {
		return tasks.ErrFenced
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.flush(ctx); err != nil {
		return err
	}
	if err := body(&k.record.Task); err != nil {
		return err
	}
	r := *k.record
	r.Stored.Offer = &Waiting{Class: o.Class, Timeout: int64(o.Timeout), Retries: o.Retries}
	if err := sp.putWaiting(ctx, &r); err != nil {
		k.unsure = errors.Is(err, tasks.ErrBusy)
		return err
	}
	sp.forget(id)
	sp.queue.Show(ctx, &r)
	return nil
}

// putWaiting stores that a task waits from now on.
func (sp *Space) putWaiting(ctx context.Context, r *Record) error {
	s, before := &r.Stored, r.Stored.Keeper
	s.Keeper, s.Writer, s.Work, s.Status, s.Message = QueueKeeper, sp.Keeper, nil, mcp.TaskWorking, ""
	s.Offer.Since, s.Updated = sp.Now().UnixNano(), sp.Now().UnixNano()
	return sp.queue.PutWaiting(ctx, r, before)
}

// waitAgain lets a task wait again whose worker is gone, or has never begun it: then it was no attempt.
func (sp *Space) waitAgain(ctx context.Context, r *Record, begun bool) error {
	again, offer := *r, *r.Stored.Offer
	if begun {
		offer.Retries--
	} else {
		offer.Attempt--
	}
	again.Stored.Offer = &offer
	if err := sp.putWaiting(ctx, &again); errors.Is(err, tasks.ErrFenced) { // somebody else was quicker
		return nil
	} else if err != nil {
		return err
	}
	sp.queue.Show(ctx, &again)
	sp.Log.Info().Str("taskId", r.ID).Str("owner", sp.Owner).Str("tool", r.Tool).Str("host", r.Worker).Msg("task waits for another worker: its worker is gone")
	return nil
}

// tend looks after tasks that are marked as waiting: those that have waited for too long are ended, and those that workers cannot see are
// shown to them again.
func (sp *Space) tend(ctx context.Context, stale map[Mark]time.Time) error {
	marked, err := sp.queue.Waiting(ctx)
	if err != nil || len(marked) == 0 {
		return err
	}
	shown, err := sp.lineUp(ctx, true)
	if err != nil {
		return err
	}
	for _, id := range marked {
		if _, ok := shown.before[id]; ok { // it is not shown any more when its time is over
			continue
		}
		r, failed := sp.Read(ctx, id)
		switch {
		case errors.Is(failed, tasks.ErrNotFound) || failed == nil && !r.Waits():
			failed = sp.unmark(ctx, Mark{ID: id, Keeper: QueueKeeper}, r, stale)
		case failed != nil:
		case r.overdue(sp.Now()):
			failed = sp.endOverdue(ctx, r)
		case sp.Now().Sub(time.Unix(0, r.Stored.Offer.Since)) > AckWait:
			sp.queue.Show(ctx, r)
		}
		err = cmp.Or(err, failed)
	}
	return err
}

// endOverdue ends a task that no worker has taken in time.
func (sp *Space) endOverdue(ctx context.Context, r *Record) error {
	o := r.Stored.Offer
	return sp.endUnkept(ctx, r, mcp.TaskFailed, fmt.Sprintf("no worker of class %s has taken it within %v (queueTimeout): runnel fleet shows which there are, and runnel work --class %s starts one",
		o.Class, time.Duration(o.Timeout), o.Class))
}

// EndUnreadable ends a task that waits, since no worker can be told what to do.
func (sp *Space) EndUnreadable(ctx context.Context, r *Record) error {
	return sp.endUnkept(ctx, r, mcp.TaskFailed, "what its worker was to be told cannot be read: the state is damaged, or somebody else has written it")
}

// endUnkept ends a task that waits, unless it does not any more.
func (sp *Space) endUnkept(ctx context.Context, r *Record, status mcp.TaskStatus, message string) error {
	shown := *r
	if err := sp.conclude(ctx, r, func(t *tasks.Task) { t.EndUnkept(ctx, status, message) }); err != nil {
		return err
	}
	sp.queue.Unshow(ctx, &shown)
	return nil
}

// line is what waits for workers, as it was looked at last.
type line struct {
	look  chan struct{} // capacity 1: full while it is looked at, since one looks for all
	mu    sync.Mutex
	known *lineUp
}

// lineUp is what waits for workers.
type lineUp struct {
	at     time.Time
	before map[string]int // by id: how many of its class have waited for longer
	class  map[string]int // how many there are
}

// lineUp returns what waits, as it was a moment ago at most.
func (sp *Space) lineUp(ctx context.Context, fresh bool) (*lineUp, error) {
	began := time.Now()
	if known := sp.line.recent(); known != nil && !fresh && began.Sub(known.at) < lineTime+time.Duration(len(known.before))*lineTimeEach {
		return known, nil
	}
	select {
	case sp.line.look <- struct{}{}:
		defer func() { <-sp.line.look }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if known := sp.line.recent(); known != nil && !known.at.Before(began) { // somebody has looked meanwhile
		return known, nil
	}
	now := &lineUp{at: time.Now(), before: map[string]int{}, class: map[string]int{}}
	shown, err := sp.queue.Shown(ctx)
	if err != nil {
		return nil, err
	}
	for class, ids := range shown {
		now.class[class] = len(ids)
		for i, id := range ids {
			now.before[id] = i
		}
	}
	sp.line.mu.Lock()
	defer sp.line.mu.Unlock()
	sp.line.known = now
	return now, nil
}

func (l *line) recent() *lineUp {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known
}

// InLine returns how many tasks wait for each class.
func (sp *Space) InLine(ctx context.Context) (map[string]int, error) {
	line, err := sp.lineUp(ctx, true)
	if err != nil {
		return nil, err
	}
	return line.class, nil
}

// describe makes the status message of a task that waits say so.
func (sp *Space) describe(ctx context.Context, r *Record) {
	if sp.queue == nil || !r.Waits() {
		return
	}
	line, _ := sp.lineUp(ctx, false) // nil if it is not known
	r.StatusMessage = waitingMessage(r, line)
}

// shows reports whether workers can see a task.
func (l *lineUp) shows(r *Record) bool {
	_, ok := l.before[r.ID]
	return ok
}

// waitingMessage says that a task waits, and for how many. Of many it says a round number: who follows is not told of each that is gone.
func waitingMessage(r *Record, line *lineUp) string {
	o := r.Stored.Offer
	message := "waiting for a worker of class " + o.Class
	if line != nil && line.shows(r) {
		message += ": " + roughly(line.before[r.ID]) + " before it"
	}
	if o.Attempt > 0 {
		message += fmt.Sprintf(" (attempt %d: its worker is gone)", o.Attempt+1)
	}
	return message
}

// roughly says how many there are, with one digit.
func roughly(n int) string {
	unit := 1
	for n/unit >= 10 {
		unit *= 10
	}
	if unit == 1 {
		return strconv.Itoa(n)
	}
	return "about " + strconv.Itoa(n/unit*unit)
}
