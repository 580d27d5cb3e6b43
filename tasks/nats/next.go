package nats

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runnel/tasks"
	"runnel/tasks/engine"
)

// Workers find waiting tasks through the work queue, whose consumers give each message to one worker.

const (
	// lookInterval is how often workers look for waiting tasks even if nothing was announced.
	lookInterval = time.Second
	// shownWait is how long a look at a line waits in which a task has woken the worker: a server
	// acknowledges a message before the consumer knows it, so that the worker may hear of it earlier. Without
	// the wait that was so for one of 600 quick calls, which then took a second.
	shownWait = 50 * time.Millisecond
)

// Next implements tasks.Queues.
func (s *State) Next(ctx context.Context, owners, classes []string) (*tasks.Offered, error) {
	w, err := s.stand(ctx, owners, classes)
	if err != nil {
		return nil, err
	}
	o, err := s.await(ctx, w)
	s.step(w, err == nil)
	return o, err
}

// await returns the next task for a worker that stands in line. It looks when a task has woken the worker,
// and lookInterval after the last look that found none.
func (s *State) await(ctx context.Context, w *standing) (*tasks.Offered, error) {
	for {
		if began := time.Now(); w.shown() || began.Sub(w.looked) >= lookInterval {
			var failed error
			for range w.spaces {
				sp := w.spaces[s.turn.Add(1)%uint64(len(w.spaces))]
				o, err := sp.next(ctx, w.classes)
				if o != nil {
					return o, nil
				}
				failed = cmp.Or(failed, err)
			}
			switch {
			case ctx.Err() != nil:
				return nil, context.Cause(ctx)
			case failed != nil:
				return nil, unreachable(failed)
			}
			w.looked = began
		}
		if !w.hears {
			if err := w.hear(); err != nil {
				return nil, unreachable(err)
			}
			w.looked = time.Time{} // what was shown before has woken another worker, or none
			continue
		}
		select {
		case <-w.woken:
		case <-time.After(time.Until(w.looked.Add(lookInterval))):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// next returns the next task of the owner that waits for a worker of one of the classes; nil if none waits.
func (sp *space) next(ctx context.Context, classes []string) (*tasks.Offered, error) {
	var failed error
	for _, priority := range sp.turns.order() {
		for _, i := range rand.Perm(len(classes)) {
			line := lineOf(classes[i], priority)
			heard, shown, ok := sp.turns.worthwhile(line)
			if !ok {
				continue
			}
			o, err := sp.first(ctx, line, shown)
			switch {
			case o != nil:
				sp.turns.found(line, true, shown, heard)
				return o, nil
			case err == nil:
				sp.turns.found(line, false, shown, heard)
			case errors.Is(err, nats.ErrNoResponders):
				// The servers have lost the queue: the next look makes it again.
			default:
				failed = err // the others are still tried
			}
		}
	}
	return nil, failed
}

// first returns the first task in a line; nil if it is empty. If a task was shown there, it waits for that
// one.
func (sp *space) first(ctx context.Context, line string, shown bool) (*tasks.Offered, error) {
	consumer, err := sp.consumer(ctx, line)
	if err != nil {
		return nil, err
	}
	for ctx.Err() == nil {
		var batch jetstream.MessageBatch
		if shown {
			batch, err = consumer.Fetch(1, jetstream.FetchMaxWait(shownWait))
		} else {
			batch, err = consumer.FetchNoWait(1)
		}
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
		if o, err := sp.offered(ctx, line, m); o != nil || err != nil {
			return o, err
		}
	}
	return nil, context.Cause(ctx)
}

// consumer returns the consumer of a line, which all workers of the class share.
func (sp *space) consumer(ctx context.Context, line string) (jetstream.Consumer, error) {
	sp.mu.Lock()
	c := sp.consumers[line]
	sp.mu.Unlock()
	if c != nil {
		return c, nil
	}
	queue, err := sp.openQueue(ctx)
	if err != nil {
		return nil, err
	}
	if c, err = queue.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: line, FilterSubject: sp.work + line + ".>", AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: engine.AckWait, MaxDeliver: -1, MaxAckPending: -1,
	}); err != nil {
		return nil, err
	}
	sp.mu.Lock()
	sp.consumers[line] = c
	sp.mu.Unlock()
	return c, nil
}

// offered reads a message of the work queue. It returns nil if the message holds nothing for a worker.
func (sp *space) offered(ctx context.Context, line string, m jetstream.Msg) (*tasks.Offered, error) {
	found, id, _, ok := sp.queued(m.Subject())
	if !ok || found != line {
		sp.refuse(m, id, errors.New("its subject is not one of runnel's"))
		return nil, nil
	}
	r, body := sp.believe(m, id)
	var err error
	if r == nil {
		err = together(
			func() (err error) { r, err = sp.Lookup(ctx, id); return err },
			func() error {
				found, err := sp.newest(ctx, sp.subject(id, "offer"))
				if found != nil {
					body = found.Data
				}
				return err
			},
		)
	}
	switch {
	case errors.Is(err, tasks.ErrNotFound) || err == nil && (!r.Waits() || sp.line(r) != line):
		// It has ended, or another worker has it.
		_ = m.Term()
		return nil, nil
	case err == nil:
		if over, err := sp.Expire(ctx, r); over {
			_ = m.Term()
			return nil, err
		}
	}
	if err != nil {
		_ = m.NakWithDelay(returnDelay)
		return nil, err
	}
	var what storedOffer
	unread := len(body) > maxOffer || json.Unmarshal(body, &what) != nil
	if unread || what.Schema < 1 || len(what.Arguments) == 0 {
		sp.refuse(m, id, errors.New("it is not one that runnel has made"))
		return nil, sp.EndUnreadable(ctx, r)
	}
	if what.Schema > offerSchema { // a newer worker can read it
		sp.c.garbage.Add(1)
		sp.Log.Error().Str("taskId", id).Str("owner", sp.Owner).Int("schema", what.Schema).
			Msg("a task is left to newer workers: a newer runnel has offered it")
		_ = m.NakWithDelay(returnDelay)
		return nil, nil
	}
	sp.Offered(r)
	offer := r.Stored.Offer
	return &tasks.Offered{
		Task: r.Task, Since: time.Unix(0, offer.Since),
		Offer: tasks.Offer{
			Class: offer.Class, Priority: offer.Priority, Arguments: what.Arguments,
			Confirmed: what.Confirmed,
			Polls:     what.Polls, Client: what.Client, Timeout: time.Duration(offer.Timeout),
			Retries: offer.Retries,
		},
		Done:   func() { _ = m.Ack() }, // otherwise it is offered again, and found not to wait
		Return: func() { _ = m.NakWithDelay(returnDelay) },
	}, nil
}

// believe returns the record and the offer that a message of the work queue names, nil if they must be read:
// they may have changed, and a worker may have tried in vain.
func (sp *space) believe(m jetstream.Msg, id string) (*engine.Record, []byte) {
	meta, err := m.Metadata()
	var says hint
	if err != nil || meta.NumDelivered > 1 || len(m.Data()) == 0 || json.Unmarshal(m.Data(), &says) != nil {
		return nil, nil
	}
	r := sp.decode(id, &jetstream.RawStreamMsg{Data: says.Record, Sequence: says.Revision,
		Time: meta.Timestamp})
	r.Seen, r.SeenData = says.Seen, says.Variables
	r.SetVariables(says.Variables)
	if r.Damage != nil || !r.Waits() || r.Attempt > 0 || r.Expired(sp.Now()) {
		return nil, nil
	}
	if sp.Now().Sub(time.Unix(0, r.Stored.Offer.Since)) > hintTime {
		return nil, nil
	}
	return r, says.Offer
}

// refuse removes an offer that no worker can take from the queue.
func (sp *space) refuse(m jetstream.Msg, id string, why error) {
	sp.c.garbage.Add(1)
	sp.Log.Error().Str("subject", m.Subject()).Str("taskId", id).Str("owner", sp.Owner).Err(why).
		Msg("an offer is refused")
	_ = m.Term()
}
