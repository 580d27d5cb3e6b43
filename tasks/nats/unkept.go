package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// A task that waits has no keeper, and one whose keeper is gone has none any more: any process may end it or let it wait again. Several may try at
// once, and the record's revision lets one of them.

// tend looks after tasks that are marked as waiting: those that have waited for too long are ended, and those whose messages were lost are
// shown to workers again.
func (sp *space) tend(ctx context.Context, marked []string) error {
	if len(marked) == 0 {
		return nil
	}
	line, err := sp.waitLine(ctx, true)
	if err != nil {
		return err
	}
	for _, id := range marked {
		if _, ok := line.before[id]; ok { // its message goes when its time is over
			continue
		}
		r, failed := sp.record(ctx, id)
		switch {
		case errors.Is(failed, tasks.ErrNotFound) || failed == nil && !r.waits():
			sp.unmark(ctx, id, "live."+queueKeeper)
		case failed != nil:
			err = failed
		case r.overdue(sp.s.o.Now()):
			err = cmp.Or(sp.endOverdue(ctx, r), err)
		case sp.s.o.Now().Sub(time.Unix(0, r.Offer.Since)) > ackWait:
			sp.enqueue(ctx, &r.Task, r.Offer, r.revision)
		}
	}
	return err
}

// endOverdue ends a task that no worker has taken in time.
func (sp *space) endOverdue(ctx context.Context, r *record) error {
	return sp.endUnkept(ctx, r, mcp.TaskFailed, fmt.Sprintf("no worker of class %s has taken it within %v (queueTimeout): runnel fleet shows which there are, and runnel work --class %s starts one",
		r.Offer.Class, time.Duration(r.Offer.Timeout), r.Offer.Class))
}

// endUnkept ends a task that waits, unless it does not any more.
func (sp *space) endUnkept(ctx context.Context, r *record, status mcp.TaskStatus, message string) error {
	place := sp.place(r.ID, r.Offer)
	if err := sp.conclude(ctx, r, func(t *tasks.Task) { t.EndUnkept(ctx, status, message) }); err != nil {
		return err
	}
	queue, err := sp.openQueue(ctx)
	if err == nil {
		err = queue.Purge(ctx, jetstream.WithPurgeSubject(place))
	}
	if err != nil { // then a worker takes it out, or its time does
		sp.s.o.Log.Debug().Err(err).Str("taskId", r.ID).Msg("taking a task out of the queue that has ended")
	}
	return nil
}

// place is the subject of a task in the work queue.
func (sp *space) place(id string, w *waiting) string {
	return fmt.Sprintf("%s%s.%020d.%s", sp.work, w.Class, w.Since, id)
}

// requeue lets the task of a worker that is gone wait again.
func (sp *space) requeue(ctx context.Context, r *record) error {
	again := r.stored
	offer := *again.Offer
	again.Offer = &offer
	offer.Retries--
	revision, err := sp.putWaiting(ctx, &r.Task, again, r.revision)
	if errors.Is(err, tasks.ErrFenced) { // somebody else was quicker
		return nil
	} else if err != nil {
		return err
	}
	sp.enqueue(ctx, &r.Task, &offer, revision)
	sp.wake(r.ID)
	sp.s.o.Log.Info().Str("taskId", r.ID).Str("owner", sp.owner).Str("tool", r.Task.Tool).Str("host", r.Worker).Msg("task waits for another worker: its worker is gone")
	return nil
}

// resume lets a task go on whose worker is gone: its output after what that one has stored, its segments after the numbers that it has given.
func (k *keeping) resume(ctx context.Context, r *record) error {
	last, err := k.sp.newest(ctx, k.sp.subject(k.id, "log.*"))
	if err != nil || last == nil {
		return err
	}
	e, err := extent(last)
	if err != nil {
		return err
	}
	end := e.End()
	r.end = end
	ends, err := k.sp.endsFrom(ctx, k.sp.fromLeader, r, 0, 0) // a replica that lags would let numbers be given twice
	if err != nil {
		return err
	}
	k.end.Store(end)
	k.kept, k.numbered = end, len(ends)
	if len(ends) > 0 {
		k.last = ends[len(ends)-1]
	}
	if k.head, err = k.headEnd(ctx); err != nil {
		return err
	}
	if k.head > 0 {
		k.tail = []place{{start: k.head}}
	}
	k.log.Resume(end)
	k.segments.Continue(ends)
	return nil
}

// headEnd is where the stored head of a long log ends, 0 if the log is not long.
func (k *keeping) headEnd(ctx context.Context) (int64, error) {
	tail, err := k.sp.newest(ctx, k.sp.subject(k.id, "log.tail"))
	if err != nil || tail == nil {
		return 0, err
	}
	head, err := k.sp.newest(ctx, k.sp.subject(k.id, "log.head"))
	if err != nil || head == nil {
		return 0, err
	}
	e, err := extent(head)
	return e.End(), err
}

// recovered is a task whose keeper is gone, with all that it has written.
func (sp *space) recovered(ctx context.Context, r *record) error {
	last, err := sp.newest(ctx, sp.subject(r.ID, "log.*")) // the replica that record has asked may lag
	if err != nil {
		return err
	}
	if last != nil {
		if e, err := extent(last); err == nil {
			r.end = max(r.end, e.End())
		}
	}
	r.Log = partials.Stored(sp.output(r.ID, r.end), r.end)
	return nil
}

// conclude stores the end of a task that no process runs. If somebody else was quicker, nothing happens.
func (sp *space) conclude(ctx context.Context, r *record, end func(t *tasks.Task)) error {
	if err := sp.recovered(ctx, r); err != nil {
		return err
	}
	end(&r.Task)
	r.UpdatedAt = sp.s.o.Now()
	stored := r.stored
	stored.put(&r.Task, sp.s.keeper)
	stored.Keeper, stored.End = "", r.end
	err := sp.putOutcome(ctx, &r.Task, &stored, r.revision)
	if err == nil {
		_, err = sp.putRecord(ctx, &r.Task, stored, r.revision)
	}
	if err == nil || errors.Is(err, tasks.ErrFenced) {
		sp.wake(r.ID)
		return nil
	}
	return err
}
