package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runnel/tasks"
	"runnel/tasks/engine"
)

// A task that waits for a worker has the keeper engine.QueueKeeper. PREFIX.OWNER.ID.offer holds the offer for
// as long as the task is kept, since it may wait again. A work queue, the stream PREFIX-work_OWNER, lists the
// waiting tasks. Its subjects are
//
//	PREFIX-work.OWNER.LINE.SINCE.ID
//
// and it has a consumer for each line (standing.go). A message there is only a hint, and the record decides: a
// sweep replaces a lost message, and a worker that gets one too many finds that the task does not wait.

const (
	// maxOffer is the longest offer, in bytes: it must fit into one message.
	maxOffer = 768 << 10
	// offerSchema is the version of an offer's format.
	offerSchema = 1
	// returnDelay is the time until a returned task is offered again.
	returnDelay = 2 * time.Second
)

// storedOffer is an offer as it is stored.
type storedOffer struct {
	Schema    int             `json:"schema"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Confirmed bool            `json:"confirmed,omitempty"`
	Polls     bool            `json:"polls,omitempty"`
	Client    tasks.FarClient `json:"client,omitzero"`
}

// Offer implements tasks.Queue.
func (q queue) Offer(ctx context.Context, id string, o tasks.Offer) error {
	body, err := encodeOffer(&o)
	if err != nil {
		return err
	}
	sp, err := q.open(ctx)
	if err != nil {
		return err
	}
	return sp.Offer(ctx, id, o, body)
}

// PutOffered implements tasks.Queue.
func (q queue) PutOffered(ctx context.Context, t tasks.Task, o tasks.Offer) error {
	body, err := encodeOffer(&o)
	if err != nil {
		return err
	}
	sp, err := q.open(ctx)
	if err != nil {
		return err
	}
	return sp.PutOffered(ctx, t, o, body)
}

// encodeOffer returns an offer as it is stored, unless no worker could get it.
func encodeOffer(o *tasks.Offer) ([]byte, error) {
	if !engine.IsToken(o.Class) {
		return nil, tasks.Trouble{Err: fmt.Errorf("%q is not a class of workers: use up to 64 letters, "+
			"digits, - and _", o.Class)}
	}
	body, err := json.Marshal(storedOffer{Schema: offerSchema, Arguments: o.Arguments, Confirmed: o.Confirmed,
		Polls: o.Polls, Client: o.Client})
	if err == nil && len(body) > maxOffer {
		err = tasks.Trouble{Err: fmt.Errorf("the arguments have %d bytes: a worker can get %d",
			len(o.Arguments), maxOffer)}
	}
	return body, err
}

// hint is a message of the work queue. It may say what a worker would read otherwise; the record decides.
type hint struct {
	Revision  uint64          `json:"revision"` // of the record
	Record    json.RawMessage `json:"record"`
	Seen      uint64          `json:"seen,omitempty"` // of the variables
	Variables []byte          `json:"variables,omitempty"`
	Offer     json.RawMessage `json:"offer"`
}

const (
	// mostHint is how long it may be, in bytes.
	mostHint = 64 << 10
	// hintTime is how long a worker believes it.
	hintTime = time.Second
)

// encodeHint returns what a message of the work queue says, nil if that would be too long.
func encodeHint(r *engine.Record) []byte {
	if len(r.Body)+len(r.SeenData) > mostHint || r.Body == nil {
		return nil
	}
	record, err := json.Marshal(r.Stored)
	if err != nil {
		return nil
	}
	says := hint{Revision: r.Revision, Record: record, Seen: r.Seen, Variables: r.SeenData, Offer: r.Body}
	data, err := json.Marshal(says)
	if err != nil {
		return nil
	}
	return data
}

// line returns the line of a waiting task.
func (sp *space) line(r *engine.Record) string {
	return lineOf(r.Stored.Offer.Class, r.Stored.Offer.Priority)
}

// place returns the subject of a task in the work queue.
func (sp *space) place(r *engine.Record) string {
	return fmt.Sprintf("%s%s.%020d.%s", sp.work, sp.line(r), r.Stored.Offer.Since, r.ID)
}

// Show implements engine.Queue. It wakes a worker first, whose look then waits for the message (shownWait):
// else the worker would wait for the acknowledgement, too.
func (sp *space) Show(ctx context.Context, r *engine.Record) error {
	if _, err := sp.openQueue(ctx); err != nil {
		return sp.lostQueue(err)
	}
	line := sp.line(r)
	if strings.Contains(line, "+") {
		_ = sp.c.nc.Publish(sp.wakes+workers, []byte(line))
	}
	sp.wakeWorker(line)
	m := nats.NewMsg(sp.place(r))
	m.Data = encodeHint(r)
	// Only one of several sweeps at the same time stores it. A later sweep stores it again if it was lost.
	period := sp.Now().Unix() / int64(engine.AckWait.Seconds())
	m.Header.Set(jetstream.MsgIDHeader, fmt.Sprintf("%s.%d.%d", r.ID, r.Revision, period))
	left := min(time.Duration(r.Stored.Offer.Timeout), r.TTL) + time.Second
	if _, err := sp.publish(ctx, m, jetstream.WithMsgTTL(left.Round(time.Second))); err != nil {
		return sp.lostQueue(err)
	}
	return nil
}

// Unshow implements engine.Queue. If that fails, a worker removes the message, or it expires.
func (sp *space) Unshow(ctx context.Context, r *engine.Record) {
	queue, err := sp.openQueue(ctx)
	if err == nil {
		_, err = ask(ctx, func(ctx context.Context) (any, error) {
			return nil, busy(queue.Purge(ctx, jetstream.WithPurgeSubject(sp.place(r))))
		})
	}
	if err != nil {
		sp.Log.Debug().Err(err).Str("taskId", r.ID).Msg("removing an ended task from the queue")
	}
}

// workers takes the place of a task's id in the subjects for workers, PREFIX-wake.OWNER.workers, which says
// to all that a high or low task was shown, and below it CLASS, which wakes one that waits. No task has this
// id.
const workers = "workers"

// openQueue returns the owner's work queue, and makes it if necessary.
func (sp *space) openQueue(ctx context.Context) (jetstream.Stream, error) {
	sp.mu.Lock()
	queue := sp.queue
	sp.mu.Unlock()
	if queue != nil {
		return queue, nil
	}
	queue, err := sp.openStream(ctx, sp.queueName,
		sp.work+">", func(_ context.Context, c *jetstream.StreamConfig) error {
			c.Retention, c.MaxConsumers = jetstream.WorkQueuePolicy, 0
			return nil
		})
	if err == nil {
		sp.mu.Lock()
		sp.queue = queue
		sp.mu.Unlock()
	}
	return queue, err
}

// lostQueue forgets the work queue and its consumers, so that the next look finds or makes them again: they
// may have been deleted.
func (sp *space) lostQueue(err error) error {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.queue = nil
	clear(sp.consumers)
	return err
}

// Shown implements engine.Queue.
func (sp *space) Shown(ctx context.Context) (map[string][]engine.InLine, error) {
	if _, err := sp.openQueue(ctx); err != nil {
		return nil, unreachable(err)
	}
	list, err := sp.subjects(ctx, sp.queueName, sp.work+">")
	if err != nil {
		return nil, sp.lostQueue(err)
	}
	slices.Sort(list) // in each line by time
	lines := map[string][]engine.InLine{}
	for _, subject := range list {
		if line, id, since, ok := sp.queued(subject); ok {
			lines[line] = append(lines[line], engine.InLine{ID: id, Since: since})
		}
	}
	shown := map[string][]engine.InLine{}
	for line := range lines {
		class, _, _ := strings.Cut(line, "+")
		if shown[class] != nil {
			continue
		}
		for _, p := range levels {
			shown[class] = append(shown[class], lines[lineOf(class, p)]...)
		}
	}
	return shown, nil
}

// queued reads the subject of a message in the work queue.
func (sp *space) queued(subject string) (line, id string, since time.Time, ok bool) {
	parts := strings.Split(strings.TrimPrefix(subject, sp.work), ".")
	class, priority, _ := strings.Cut(parts[0], "+")
	known := lineOf(class, tasks.Priority(priority)) == parts[0]
	if len(parts) != 3 || !known || !engine.IsToken(class) || !engine.IsToken(parts[2]) {
		return "", "", time.Time{}, false
	}
	at, _ := strconv.ParseInt(parts[1], 10, 64) // others may have written it
	return parts[0], parts[2], time.Unix(0, at), true
}

// Reach implements engine.Queue.
//
// After a server was killed, a consumer of nats-server 2.12 may have passed a message that is still in the
// stream: it was acknowledged and is not removed, or no worker has ever got it. With such a message, no sweep
// finds that its task must be shown again. A consumer that is made again delivers all that is there, and the
// record decides what it is worth.
func (sp *space) Reach(ctx context.Context) error {
	queue, err := sp.openQueue(ctx)
	if err != nil {
		return unreachable(err)
	}
	subjects, err := sp.subjects(ctx, sp.queueName, sp.work+">")
	if err != nil {
		return sp.lostQueue(err)
	}
	passed := map[string]uint64{}
	looked := map[string]bool{}
	for _, subject := range subjects {
		line, _, _, ok := sp.queued(subject)
		if !ok || looked[line] {
			continue
		}
		looked[line] = true
		consumer, err := queue.Consumer(ctx, line)
		if errors.Is(err, jetstream.ErrConsumerNotFound) { // the first worker makes it
			continue
		}
		if err != nil {
			return sp.lostQueue(unreachable(err))
		}
		info := consumer.CachedInfo()
		first, err := queue.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(info.Config.FilterSubject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return sp.lostQueue(unreachable(err))
		}
		if first.Sequence <= info.AckFloor.Stream || info.NumPending == 0 && info.NumAckPending == 0 {
			passed[line] = first.Sequence
		}
	}
	sp.mu.Lock()
	before := sp.passed
	sp.passed = passed
	sp.mu.Unlock()
	for line, sequence := range passed {
		if before[line] != sequence { // the message may just have been acknowledged
			continue
		}
		sp.Log.Warn().Str("owner", sp.Owner).Str("line", line).Uint64("sequence", sequence).
			Msg("a waiting task reached no worker: the consumer of its line is made again")
		if err := queue.DeleteConsumer(ctx, line); err != nil &&
			!errors.Is(err, jetstream.ErrConsumerNotFound) {
			return sp.lostQueue(unreachable(err))
		}
		sp.mu.Lock()
		delete(sp.consumers, line)
		sp.mu.Unlock()
	}
	return nil
}
