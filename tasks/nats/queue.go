package nats

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// A task that waits for a worker has the keeper queueKeeper. PREFIX.OWNER.ID.offer is what the worker is told, for as long as the task is
// kept: it may wait again. That it waits stands in a work queue, the stream PREFIX-work_OWNER, whose subjects are
//
//	PREFIX-work.OWNER.CLASS.SINCE.ID
//
// and which has a consumer for each class. A message there is a hint, and the record decides: one that is lost is put there again by a sweep,
// and one too many finds a task that does not wait.

var _ tasks.Queue = (*State)(nil)

// queueKeeper is the keeper of tasks that wait for a worker.
const queueKeeper = "queue"

const (
	// maxOffer is how long what a worker is told may be, in bytes: it is one message.
	maxOffer = 768 << 10
	// offerSchema is the version of what a worker is told.
	offerSchema = 1
	// ackWait is how long a worker may take from the offer of a task until it has taken it.
	ackWait = 30 * time.Second
	// returnDelay is when a task is offered again that a worker has given back.
	returnDelay = 2 * time.Second
	// lineTime is how long it is believed what waits, where its number is only shown.
	lineTime = 250 * time.Millisecond
)

// waiting is what the record of a task says that was offered to workers.
type waiting struct {
	Class   string `json:"class"`
	Since   int64  `json:"since"`   // when it was offered last
	Timeout int64  `json:"timeout"` // nanoseconds, from then on
	Retries int    `json:"retries,omitempty"`
	Attempt int    `json:"attempt,omitempty"` // how often workers have taken it
}

// told is what a worker is told.
type told struct {
	Schema    int             `json:"schema"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Confirmed bool            `json:"confirmed,omitempty"`
	Polls     bool            `json:"polls,omitempty"`
}

// waits reports whether a task waits for a worker.
func (r *record) waits() bool { return r.Keeper == queueKeeper && r.Offer != nil && !r.terminal() }

// overdue reports whether a task has waited for too long.
func (r *record) overdue(now time.Time) bool {
	return r.waits() && now.After(time.Unix(0, r.Offer.Since+r.Offer.Timeout))
}

// Offer implements tasks.Queue.
func (s *State) Offer(ctx context.Context, owner, id string, o tasks.Offer) error {
	if !isToken(o.Class) {
		return tasks.Trouble{Err: fmt.Errorf("%q is no class of workers: use up to 64 letters, digits, - and _", o.Class)}
	}
	body, err := json.Marshal(told{Schema: offerSchema, Arguments: o.Arguments, Confirmed: o.Confirmed, Polls: o.Polls})
	if err != nil {
		return err
	}
	if len(body) > maxOffer {
		return tasks.Trouble{Err: fmt.Errorf("the arguments have %d bytes: a worker can be told %d", len(o.Arguments), maxOffer)}
	}
	sp, err := s.space(ctx, owner)
	if err != nil {
		return err
	}
	sp.mu.Lock()
	k := sp.live[id]
	sp.mu.Unlock()
	if k == nil {
		return tasks.ErrFenced
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.resend(ctx); err != nil {
		return err
	}
	if _, err := sp.publish(ctx, &nats.Msg{Subject: sp.subject(id, "offer"), Header: rollup, Data: body}, sp.expiring(k.task)); err != nil {
		return err
	}
	r := k.record
	r.Offer = &waiting{Class: o.Class, Timeout: int64(o.Timeout), Retries: o.Retries}
	revision, err := sp.putWaiting(ctx, k.task, r, k.revision)
	if err != nil {
		k.unsure = errors.Is(err, tasks.ErrBusy)
		return err
	}
	k.leave(ctx)
	sp.enqueue(ctx, k.task, r.Offer, revision)
	return nil
}

// putWaiting stores the record of a task that waits from now on.
func (sp *space) putWaiting(ctx context.Context, t *tasks.Task, r stored, revision uint64) (uint64, error) {
	if _, err := sp.publish(ctx, nats.NewMsg(sp.subject(t.ID, "live."+queueKeeper)), sp.expiring(t)); err != nil {
		return 0, err
	}
	r.Keeper, r.Writer, r.Work, r.Status, r.Message = queueKeeper, sp.s.keeper, nil, mcp.TaskWorking, ""
	r.Offer.Since, r.Updated = sp.s.o.Now().UnixNano(), sp.s.o.Now().UnixNano()
	return sp.putRecord(ctx, t, r, revision) // of one that is refused the mark stays, until a sweep finds that it does not wait
}

// enqueue shows workers a task that waits. What is not shown now is shown by a sweep.
func (sp *space) enqueue(ctx context.Context, t *tasks.Task, w *waiting, revision uint64) {
	_, err := sp.openQueue(ctx)
	if err == nil {
		m := nats.NewMsg(sp.place(t.ID, w))
		m.Header.Set(jetstream.MsgIDHeader, fmt.Sprintf("%s.%d", t.ID, revision)) // several sweeps show it once
		left := min(time.Duration(w.Timeout), t.TTL) + time.Second
		_, err = sp.publish(ctx, m, jetstream.WithMsgTTL(left.Round(time.Second)))
	}
	if err != nil {
		err = sp.lostQueue(err)
		sp.s.o.Log.Warn().Err(err).Str("taskId", t.ID).Msg("workers hear later of a task that waits for them")
		return
	}
	_ = sp.s.nc.Publish(sp.wakes+workers, nil) // who does not hear it looks by itself
}

// workers is what is woken by a task that waits; no task has this id.
const workers = "workers"

// openQueue returns the owner's work queue, which is made if there is none.
func (sp *space) openQueue(ctx context.Context) (jetstream.Stream, error) {
	sp.mu.Lock()
	queue := sp.queue
	sp.mu.Unlock()
	if queue != nil {
		return queue, nil
	}
	queue, err := sp.openStream(ctx, sp.queueName, sp.work+">", func(c *jetstream.StreamConfig) {
		c.Retention, c.MaxConsumers = jetstream.WorkQueuePolicy, 0
	})
	if err == nil {
		sp.mu.Lock()
		sp.queue = queue
		sp.mu.Unlock()
	}
	return queue, err
}

// lostQueue makes the next look find the work queue and its consumers anew: somebody may have deleted them.
func (sp *space) lostQueue(err error) error {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.queue = nil
	clear(sp.consumers)
	return err
}

// line is what waits for workers.
type line struct {
	at     time.Time
	before map[string]int // by id: how many of its class have waited for longer
	class  map[string]int // how many there are
}

// waitLine returns what waits, as it was a moment ago at most.
func (sp *space) waitLine(ctx context.Context, fresh bool) (*line, error) {
	sp.mu.Lock()
	known := sp.line
	sp.mu.Unlock()
	if known != nil && !fresh && time.Since(known.at) < lineTime {
		return known, nil
	}
	if _, err := sp.openQueue(ctx); err != nil {
		return nil, err
	}
	now := line{at: time.Now(), before: map[string]int{}, class: map[string]int{}}
	list, err := sp.subjects(ctx, sp.queueName, sp.work+">")
	if err != nil {
		return nil, sp.lostQueue(err)
	}
	slices.Sort(list) // by class, then by time
	for _, subject := range list {
		if class, id, ok := sp.queued(subject); ok {
			now.before[id] = now.class[class]
			now.class[class]++
		}
	}
	sp.mu.Lock()
	sp.line = &now
	sp.mu.Unlock()
	return &now, nil
}

// queued reads the subject of a message in the work queue.
func (sp *space) queued(subject string) (class, id string, ok bool) {
	parts := strings.Split(strings.TrimPrefix(subject, sp.work), ".")
	if len(parts) != 3 || !isToken(parts[0]) || !isToken(parts[2]) {
		return "", "", false
	}
	return parts[0], parts[2], true
}

// describe makes the status message of a task that waits say so.
func (sp *space) describe(ctx context.Context, r *record) {
	if !r.waits() {
		return
	}
	r.StatusMessage = "waiting for a worker of class " + r.Offer.Class
	if line, err := sp.waitLine(ctx, false); err == nil {
		if before, ok := line.before[r.ID]; ok {
			r.StatusMessage += fmt.Sprintf(": %d before it", before)
		}
	}
	if r.Offer.Attempt > 0 {
		r.StatusMessage += fmt.Sprintf(" (attempt %d: its worker is gone)", r.Offer.Attempt+1)
	}
}

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
	ends, err := k.sp.ends(ctx, r, 0, 0)
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

// Next implements tasks.Queue.
func (s *State) Next(ctx context.Context, owners, classes []string) (*tasks.Offered, error) {
	heard := make(chan *nats.Msg, 64) // what is lost of it is not missed: one is enough
	var spaces []*space
	for _, owner := range owners {
		sp, err := s.space(ctx, owner)
		if err != nil {
			return nil, err
		}
		wakes, err := s.nc.ChanSubscribe(sp.wakes+workers, heard)
		if err != nil {
			return nil, unreachable(err)
		}
		defer func() { _ = wakes.Unsubscribe() }()
		spaces = append(spaces, sp)
	}
	for {
		var failed error
		for range spaces {
			sp := spaces[s.turn.Add(1)%uint64(len(spaces))]
			for _, class := range classes {
				switch o, err := sp.next(ctx, class); {
				case o != nil:
					return o, nil
				case err != nil:
					failed = err // the others are looked at all the same
				}
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case failed != nil:
			return nil, unreachable(failed)
		}
		select {
		case <-heard:
		case <-time.After(lookInterval):
		case <-ctx.Done():
		}
	}
}

// next returns the next task that waits for a worker of a class, nil if there is none.
func (sp *space) next(ctx context.Context, class string) (*tasks.Offered, error) {
	consumer, err := sp.consumer(ctx, class)
	if err != nil {
		return nil, err
	}
	for ctx.Err() == nil {
		batch, err := consumer.FetchNoWait(1)
		if err != nil {
			return nil, sp.lostQueue(err)
		}
		m := <-batch.Messages()
		if m == nil {
			if err := batch.Error(); err != nil {
				return nil, sp.lostQueue(err)
			}
			return nil, nil
		}
		if o, err := sp.offered(ctx, class, m); o != nil || err != nil {
			return o, err
		}
	}
	return nil, context.Cause(ctx)
}

// consumer returns the consumer of a class, which all workers of the class share.
func (sp *space) consumer(ctx context.Context, class string) (jetstream.Consumer, error) {
	sp.mu.Lock()
	c := sp.consumers[class]
	sp.mu.Unlock()
	if c != nil {
		return c, nil
	}
	queue, err := sp.openQueue(ctx)
	if err != nil {
		return nil, err
	}
	if c, err = queue.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: class, FilterSubject: sp.work + class + ".>", AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxDeliver: -1, MaxAckPending: -1,
	}); err != nil {
		return nil, err
	}
	sp.mu.Lock()
	sp.consumers[class] = c
	sp.mu.Unlock()
	return c, nil
}

// offered reads a message of the work queue. It returns nil if there is nothing in it for a worker.
func (sp *space) offered(ctx context.Context, class string, m jetstream.Msg) (*tasks.Offered, error) {
	found, id, ok := sp.queued(m.Subject())
	if !ok || found != class {
		sp.refuse(m, id, errors.New("its subject is not one of runnel's"))
		return nil, nil
	}
	r, err := sp.record(ctx, id)
	switch {
	case errors.Is(err, tasks.ErrNotFound) || err == nil && (!r.waits() || r.Offer.Class != class): // it has ended, or another worker has it
		_ = m.Term()
		return nil, nil
	case err == nil && r.overdue(sp.s.o.Now()):
		_ = m.Term()
		return nil, sp.endOverdue(ctx, r)
	}
	var body *jetstream.RawStreamMsg
	if err == nil {
		body, err = sp.newest(ctx, sp.subject(id, "offer"))
	}
	if err != nil {
		_ = m.NakWithDelay(returnDelay)
		return nil, err
	}
	var what told
	if body == nil || len(body.Data) > maxOffer || json.Unmarshal(body.Data, &what) != nil || what.Schema < 1 || len(what.Arguments) == 0 {
		sp.refuse(m, id, errors.New("it is not one that runnel has made"))
		return nil, sp.endUnkept(ctx, r, mcp.TaskFailed, "what its worker was to be told cannot be read: the state is damaged, or somebody else has written it")
	}
	if what.Schema > offerSchema { // a newer worker can read it
		sp.s.garbage.Add(1)
		sp.s.o.Log.Error().Str("taskId", id).Str("owner", sp.owner).Int("schema", what.Schema).Msg("a task is left to newer workers: a newer runnel offers it")
		_ = m.NakWithDelay(returnDelay)
		return nil, nil
	}
	return &tasks.Offered{
		Task: r.Task,
		Offer: tasks.Offer{Class: class, Arguments: what.Arguments, Confirmed: what.Confirmed, Polls: what.Polls,
			Timeout: time.Duration(r.Offer.Timeout), Retries: r.Offer.Retries},
		Done:   func() { _ = m.Ack() }, // else it is offered again, and found not to wait
		Return: func() { _ = m.NakWithDelay(returnDelay) },
	}, nil
}

// refuse takes an offer out of the queue that can be nobody's.
func (sp *space) refuse(m jetstream.Msg, id string, why error) {
	sp.s.garbage.Add(1)
	sp.s.o.Log.Error().Str("subject", m.Subject()).Str("taskId", id).Str("owner", sp.owner).Err(why).Msg("an offer is refused")
	_ = m.Term()
}

// Announce implements tasks.Queue.
func (s *State) Announce(ctx context.Context, owner string, w *tasks.Worker) error {
	sp, err := s.space(ctx, owner)
	if err != nil {
		return err
	}
	if w == nil {
		ctx, cancel := context.WithTimeout(ctx, ackTimeout)
		defer cancel()
		return sp.leases.Purge(ctx, jetstream.WithPurgeSubject(sp.announcement(s.keeper)))
	}
	says := *w
	says.Refused += int(s.garbage.Load())
	data, err := json.Marshal(says)
	if err != nil {
		return err
	}
	if len(data) > maxMessage-4<<10 {
		return fmt.Errorf("the descriptions and schemas of the tools have %d bytes: a worker can announce %d; make them shorter, or give some tools to another worker", len(data), maxMessage)
	}
	m := &nats.Msg{Subject: sp.announcement(s.keeper), Header: nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}, jetstream.MsgIDHeader: {uuid.NewString()}}, Data: data}
	_, err = sp.publish(ctx, m, jetstream.WithMsgTTL(leaseTTL))
	return err
}

// announcement is where a worker says what it does: with the leases, since it runs out like them.
func (sp *space) announcement(keeper string) string { return sp.alive + keeper + ".worker" }

// Fleet implements tasks.Queue.
func (s *State) Fleet(ctx context.Context, owner string) (list []tasks.Worker, waits map[string]int, err error) {
	sp, err := s.space(ctx, owner)
	if err != nil {
		return nil, nil, err
	}
	messages, err := sp.lastIn(ctx, sp.leaseName, sp.announcement("*"))
	if err != nil {
		return nil, nil, err
	}
	for _, m := range messages {
		var w tasks.Worker
		if err := json.Unmarshal(m.Data, &w); err != nil {
			s.o.Log.Error().Str("subject", m.Subject).Str("owner", owner).Err(err).Msg("what a worker says of itself is passed over: it cannot be read")
			continue
		}
		list = append(list, w)
	}
	slices.SortFunc(list, func(a, b tasks.Worker) int {
		if n := strings.Compare(a.Host, b.Host); n != 0 {
			return n
		}
		return a.PID - b.PID
	})
	line, err := sp.waitLine(ctx, true)
	if err != nil {
		return nil, nil, unreachable(err)
	}
	return list, line.class, nil
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
