package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"runnel/internal/pause"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

const (
	// AckWait is how long a worker may take from getting the offer of a task to taking it: as long as a state
	// waits for a write. After that the task is offered again, since the offer may have been lost. If it was
	// taken meanwhile, the next worker finds that it does not wait.
	AckWait = 10 * time.Second
	// lineTime is how long a view of the line stays valid where only a number is shown, and how long a task
	// waits before its number is shown. lineTimeEach is how much longer the view is valid for each task in
	// it: a look costs as much as there is in line.
	lineTime     = 250 * time.Millisecond
	lineTimeEach = time.Millisecond
)

// Offered notes the record of a task that a Queue is about to return to a worker, so that Take need not read
// it again.
func (sp *Space) Offered(r *Record) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.latest = r
}

// Expire ends a task that has waited too long, and reports whether it did.
func (sp *Space) Expire(ctx context.Context, r *Record) (bool, error) {
	if !r.overdue(sp.Now()) {
		return false, nil
	}
	return true, sp.endOverdue(ctx, r)
}

// Offer makes a task of this process wait for a worker. body is the offer as PutWaiting stores it.
func (sp *Space) Offer(ctx context.Context, id string, o tasks.Offer, body []byte) error {
	k := sp.kept(id)
	if k == nil {
		return tasks.ErrFenced
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.flush(ctx); err != nil {
		return err
	}
	if k.over {
		return tasks.ErrFenced
	}
	r := *k.record
	r.offer(o, body, sp.Keeper)
	// A worker hands it back, which does not count as an attempt.
	if taken := k.record.Stored.Offer; taken != nil {
		r.Stored.Offer.Attempt, r.Stored.Offer.Front = taken.Attempt-1, taken.Front
	}
	return sp.letWait(ctx, &r, func() error {
		err := sp.putWaiting(ctx, &r)
		if err == nil {
			sp.forget(id)
		}
		k.unsure = errors.Is(err, tasks.ErrBusy)
		return err
	})
}

// PutOffered stores a new task that waits for a worker. body is the offer as Insert stores it. If no server
// answers, what may be stored is deleted, like any other task that was refused.
func (sp *Space) PutOffered(ctx context.Context, t tasks.Task, o tasks.Offer, body []byte) error {
	if err := sp.Ready(ctx); err != nil {
		return err
	}
	t.Owner = sp.Owner
	r := sp.newRecord(t)
	r.offer(o, body, sp.Keeper)
	sp.wait(r)
	return sp.letWait(ctx, r, func() error { return sp.insert(ctx, r) })
}

// offer adds an offer of a process to a record.
func (r *Record) offer(o tasks.Offer, body []byte, keeper string) {
	r.Body = body
	r.Stored.Offer = &waiting{Class: o.Class, Priority: o.Priority, Timeout: int64(o.Timeout),
		Retries: o.Retries}
	if o.Attached {
		r.Stored.Offer.Front = keeper
	}
}

// letWait calls store, which stores that a task waits. From then on this process follows the task, and
// workers see it.
func (sp *Space) letWait(ctx context.Context, r *Record, store func() error) error {
	heard, err := sp.Hear(sp.ctx, r.ID)
	if err != nil {
		return err
	}
	if err := store(); err != nil {
		heard.Close()
		return err
	}
	before, waits := *r, *r
	before.Revision = 0 // the next look finds that it waits
	waits.take()
	sp.follow(r.Log, &following{Hearing: heard, record: &before, news: &News{Record: &waits},
		read: time.Now()})
	sp.show(ctx, r)
	return nil
}

// putWaiting stores that a task waits from now on.
func (sp *Space) putWaiting(ctx context.Context, r *Record) error {
	before := r.Stored.Keeper
	sp.wait(r)
	return sp.Queue.PutWaiting(ctx, r, before)
}

// wait makes a record that of a task that waits from now on.
func (sp *Space) wait(r *Record) {
	s := &r.Stored
	s.Keeper = QueueKeeper
	s.Writer = sp.Keeper
	s.Work = nil
	s.Status = mcp.TaskWorking
	s.Message = ""
	s.Offer.Since, s.Updated = sp.Now().UnixNano(), sp.Now().UnixNano()
}

// waitAgain makes a task wait again because its worker is gone or has not begun it. The latter does not count
// as an attempt.
func (sp *Space) waitAgain(ctx context.Context, r *Record, begun bool) error {
	again, offer := *r, *r.Stored.Offer
	if begun {
		offer.Retries--
	} else {
		offer.Attempt--
	}
	again.Stored.Offer = &offer
	if err := sp.putWaiting(ctx, &again); errors.Is(err, tasks.ErrFenced) { // somebody else was faster
		return nil
	} else if err != nil {
		return err
	}
	sp.mu.Lock()
	delete(sp.unanswered, r.ID)
	sp.mu.Unlock()
	sp.show(ctx, &again)
	sp.Log.Info().Str("taskId", r.ID).Str("owner", sp.Owner).Str("tool", r.Tool).Str("host", r.Worker).
		Msg("task waits for another worker: its worker is gone")
	return nil
}

// endLeft ends a waiting task whose front has ended, and reports whether it did.
func (sp *Space) endLeft(ctx context.Context, r *Record) (bool, error) {
	if r.front() == "" || !r.Waits() || sp.Now().Sub(time.Unix(0, r.Stored.Offer.Since)) < LeaseTTL {
		return false, nil
	}
	if lives, err := sp.Queue.Lives(ctx, r.front()); err != nil || lives {
		return false, err
	}
	return true, sp.endUnkept(ctx, r, mcp.TaskCancelled, "the runnel that made the call had ended")
}

// aliveFronts returns those of the fronts of some tasks of this process that have a lease.
func (sp *Space) aliveFronts(ctx context.Context, mine []*backing) (alive []string, err error) {
	looked := map[string]bool{"": true}
	for _, k := range mine {
		if looked[k.front] {
			continue
		}
		looked[k.front] = true
		lives, err := sp.Queue.Lives(ctx, k.front)
		if err != nil {
			return nil, err
		}
		if lives {
			alive = append(alive, k.front)
		}
	}
	return alive, nil
}

// leaveWithFront asks for the end of the tasks of this process whose front has ended.
func (sp *Space) leaveWithFront(ctx context.Context, gone func(keeper string) bool) error {
	for _, k := range sp.mine() {
		if k.front == "" || !gone(k.front) {
			continue
		}
		r, err := sp.Read(ctx, k.id)
		if err != nil && !errors.Is(err, tasks.ErrNotFound) {
			return err
		}
		if err == nil && r.front() != "" && !r.Terminal() {
			sp.Log.Info().Str("taskId", k.id).Str("owner", sp.Owner).Str("tool", r.Tool).
				Msg("task is cancelled: the runnel that made the call has ended")
			sp.Want(k.id)
		}
	}
	return nil
}

// returnUnanswered makes tasks wait again that this process has taken without an answer. It is closing, and
// others would count them as attempts.
func (sp *Space) returnUnanswered(ctx context.Context) {
	sp.mu.Lock()
	unanswered := slices.Collect(maps.Keys(sp.unanswered))
	sp.mu.Unlock()
	for _, id := range unanswered {
		r, err := sp.Read(ctx, id)
		if err == nil && r.Stored.Keeper == sp.Keeper && !r.Terminal() && r.Stored.Offer != nil &&
			sp.kept(id) == nil {
			_ = sp.waitAgain(ctx, r, false) // if it fails, another process ends the task or makes it wait
		}
	}
}

// showAgain is the first pause before another try to show a waiting task. It doubles up to the interval of
// sweeps.
const showAgain = 100 * time.Millisecond

// show lets workers see a waiting task: now or, if that fails, as soon as it succeeds, unless the task no
// longer waits.
func (sp *Space) show(ctx context.Context, r *Record) {
	err := sp.Queue.Show(ctx, r)
	if err == nil {
		return
	}
	sp.Log.Warn().Err(err).Str("taskId", r.ID).Msg("a waiting task cannot be shown to workers yet")
	sp.Go(func(ctx context.Context) {
		for wait := showAgain; err != nil && pause.For(ctx, wait); wait = min(2*wait, sweepInterval) {
			var there *Record
			there, err = sp.Read(ctx, r.ID)
			switch {
			case errors.Is(err, tasks.ErrNotFound) ||
				err == nil && (!there.Waits() || there.overdue(sp.Now())):
				return
			case err == nil:
				err = sp.Queue.Show(ctx, there)
			}
		}
	})
}

// tend looks after the tasks that are marked as waiting: it ends those that have waited too long, and shows
// those again that workers cannot see.
func (sp *Space) tend(ctx context.Context, stale map[Mark]time.Time) error {
	marked, err := sp.Queue.Waiting(ctx)
	if err != nil || len(marked) == 0 {
		return err
	}
	shown, err := sp.lineUp(ctx, true)
	if err != nil {
		return err
	}
	for _, id := range marked {
		if _, ok := shown.before[id]; ok { // once its time is over it is no longer shown
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
			failed = sp.Queue.Show(ctx, r) // the process that made it wait is gone, or still trying
		}
		err = cmp.Or(err, failed)
	}
	return cmp.Or(err, sp.Queue.Reach(ctx))
}

// endOverdue ends a task that no worker has taken in time.
func (sp *Space) endOverdue(ctx context.Context, r *Record) error {
	o := r.Stored.Offer
	return sp.endUnkept(ctx, r, mcp.TaskFailed,
		fmt.Sprintf("no worker of class %s has taken it within %v (queueTimeout): runnel fleet shows "+
			"which there are, and runnel work --class %s starts one",
			o.Class, time.Duration(o.Timeout), o.Class))
}

// EndUnreadable ends a waiting task because its offer cannot be read.
func (sp *Space) EndUnreadable(ctx context.Context, r *Record) error {
	return sp.endUnkept(ctx, r, mcp.TaskFailed,
		"its offer to workers cannot be read: the state is damaged, or something other than runnel has "+
			"written to it")
}

// endUnkept ends a task if it still waits.
func (sp *Space) endUnkept(ctx context.Context, r *Record, status mcp.TaskStatus, message string) error {
	shown := *r
	if _, err := sp.conclude(ctx, r, func(t *tasks.Task) { t.EndUnkept(ctx, status, message) }); err != nil {
		return err
	}
	sp.Queue.Unshow(ctx, &shown)
	return nil
}

// lineUp returns what waits, or a recent view of it unless fresh is set.
func (sp *Space) lineUp(ctx context.Context, fresh bool) (*lineUp, error) {
	began := time.Now()
	if known := sp.line.recent(); known != nil && !fresh &&
		began.Sub(known.at) < lineTime+time.Duration(len(known.before))*lineTimeEach {
		return known, nil
	}
	select {
	case sp.line.look <- struct{}{}:
		defer func() { <-sp.line.look }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	// Another goroutine has looked in between.
	if known := sp.line.recent(); known != nil && !known.at.Before(began) {
		return known, nil
	}
	now := &lineUp{at: time.Now(), before: map[string]int{}, class: map[string]tasks.Waiting{}}
	shown, err := sp.Queue.Shown(ctx)
	if err != nil {
		return nil, err
	}
	for class, line := range shown {
		waits := tasks.Waiting{Tasks: len(line), Since: line[0].Since}
		for i, t := range line {
			now.before[t.ID] = i
			if t.Since.Before(waits.Since) {
				waits.Since = t.Since
			}
		}
		now.class[class] = waits
	}
	sp.line.mu.Lock()
	defer sp.line.mu.Unlock()
	sp.line.known = now
	return now, nil
}

// Line returns what waits for each class.
func (sp *Space) Line(ctx context.Context) (map[string]tasks.Waiting, error) {
	line, err := sp.lineUp(ctx, true)
	if err != nil {
		return nil, err
	}
	return line.class, nil
}

// describe makes the status message of a waiting task say so.
func (sp *Space) describe(ctx context.Context, r *Record) {
	if sp.Queue == nil || !r.Waits() {
		return
	}
	var line *lineUp // nil if it is unknown
	// Most tasks wait less, and need no look.
	if waits := sp.Now().Sub(time.Unix(0, r.Stored.Offer.Since)); waits > lineTime {
		line, _ = sp.lineUp(ctx, false)
	}
	r.StatusMessage = waitingMessage(r, line)
}

// line is the latest view of what waits for workers.
type line struct {
	look  chan struct{} // capacity 1: full while one looks, on behalf of all
	mu    sync.Mutex
	known *lineUp
}

// lineUp is what waits for workers at one moment.
type lineUp struct {
	at time.Time
	// before is, by id, how many of its class have a higher priority, or the same and have waited longer.
	before map[string]int
	class  map[string]tasks.Waiting
}

func (l *line) recent() *lineUp {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known
}

// shows reports whether workers can see a task.
func (l *lineUp) shows(r *Record) bool {
	_, ok := l.before[r.ID]
	return ok
}

// waitingMessage says that a task waits, and how many stand before it.
func waitingMessage(r *Record, line *lineUp) string {
	o := r.Stored.Offer
	message := "waiting for a worker of class " + o.Class
	if line != nil && line.shows(r) {
		message += fmt.Sprintf(": %d before it", line.before[r.ID])
	}
	if o.Attempt > 0 {
		message += fmt.Sprintf(" (attempt %d: its worker is gone)", o.Attempt+1)
	}
	return message
}
