package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

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
	Client    tasks.FarClient `json:"client,omitzero"`
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
	body, err := json.Marshal(told{Schema: offerSchema, Arguments: o.Arguments, Confirmed: o.Confirmed, Polls: o.Polls, Client: o.Client})
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
