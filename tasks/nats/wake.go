package nats

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runnel/partials"
	"runnel/tasks"
	"runnel/tasks/engine"
)

// askTimeout is how long a keeper may take to acknowledge a request.
const askTimeout = 2 * time.Second

// Ask implements engine.Driver. The keeper acknowledges the request.
func (sp *space) Ask(ctx context.Context, r *engine.Record) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if _, err := sp.c.nc.RequestWithContext(ctx, sp.asks+r.Stored.Keeper, []byte(r.ID)); err != nil {
		return tasks.Trouble{Err: engine.Away{Err: fmt.Errorf("the runnel that runs the task does not "+
			"answer; if it is gone, the task ends within %v: %w", engine.LastNews, err)}}
	}
	return nil
}

// hearAsk acknowledges the requests of others.
func (sp *space) hearAsk(m *nats.Msg) {
	sp.Want(string(m.Data))
	_ = m.Respond(nil)
}

// Asked implements engine.Driver. Requests come as messages (hearAsk), and none is stored.
func (sp *space) Asked(context.Context) ([]string, error) { return nil, nil }

// hearing is a subscription to the messages that wake the followers of a task.
type hearing struct {
	*nats.Subscription
	sp *space
	id string
}

// Hear implements engine.Driver.
func (sp *space) Hear(_ context.Context, id string) (engine.Hearing, error) {
	heard, err := sp.c.nc.SubscribeSync(sp.wakes + id)
	if err != nil {
		return nil, unreachable(err)
	}
	return hearing{heard, sp, id}, nil
}

// wake is a message that wakes the followers of a task. It says what was stored, as far as that is short: as
// JSON, and the bytes of the output after it, on lines of their own.
type wake struct {
	Revision uint64          `json:"revision,omitempty"` // of the record
	Record   json.RawMessage `json:"record,omitempty"`
	Outcome  []byte          `json:"outcome,omitempty"`

	End     int64            `json:"end,omitempty"`  // of the output
	Next    uint64           `json:"next,omitempty"` // the least sequence number of what follows that
	Output  *partials.Extent `json:"output,omitempty"`
	First   int64            `json:"first,omitempty"` // the number of the first segment in Numbers
	Numbers []byte           `json:"numbers,omitempty"`
}

// mostWake is how long what a wake says may be, in bytes: of what is longer, each follower reads what it
// needs.
const mostWake = 16 << 10

// wake wakes the followers of a task. One that misses it looks by itself.
func (sp *space) wake(id string, w wake) {
	var data []byte
	if len(w.Record)+len(w.Outcome) > mostWake {
		w.Record, w.Outcome, w.Revision = nil, nil, 0
	}
	if w.Output != nil && len(w.Output.Data)+len(w.Numbers) > mostWake {
		w.Output, w.First, w.Numbers = nil, 0, nil
	}
	var output []byte
	if w.Output != nil {
		output = w.Output.Data
		w.Output = &partials.Extent{Start: w.Output.Start, Marks: w.Output.Marks}
	}
	if w.Revision > 0 || w.End > 0 {
		data, _ = json.Marshal(w)
		data = append(append(data, '\n'), output...)
	}
	_ = sp.c.nc.Publish(sp.wakes+id, data)
}

// wakeRecord is wake with a record as it was stored.
func (sp *space) wakeRecord(r *engine.Record, outcome []byte) {
	record, err := json.Marshal(r.Stored)
	if err != nil {
		record, outcome = nil, nil
	}
	sp.wake(r.ID, wake{Revision: r.Revision, Record: record, Outcome: outcome})
}

// Wait implements engine.Hearing. It takes all messages that have come.
func (h hearing) Wait(ctx context.Context) (news engine.News, err error) {
	unknown := false
	for n := 1; n > 0 && err == nil; n, _, _ = h.Pending() {
		var m *nats.Msg
		if m, err = h.NextMsgWithContext(ctx); err != nil {
			break
		}
		var w wake
		says, output, _ := bytes.Cut(m.Data, []byte("\n"))
		switch {
		case json.Unmarshal(says, &w) != nil || w.Revision == 0 && w.End <= 0:
			unknown = true
		case w.Revision > 0:
			r := h.sp.decode(h.id, &jetstream.RawStreamMsg{Data: w.Record, Sequence: w.Revision,
				Time: time.Now()})
			unknown = unknown || r.Damage != nil
			if r.Terminal() {
				h.sp.leaving.Delete(h.id)
			}
			if news.Record == nil || news.Record.Revision < r.Revision {
				news.Record, news.Outcome = r, w.Outcome
			}
		default:
			h.sp.places.note(h.sp.subject(h.id, "log.*"), place{w.End, w.Next})
			news.End = max(news.End, w.End)
			if w.Output != nil {
				if len(output) > 0 { // runnel had it in the JSON before
					w.Output.Data = output
				}
				news.Output = append(news.Output, *w.Output)
			} else {
				news.Output = nil
			}
			if w.First > 0 {
				news.Numbers = append(news.Numbers, engine.NumberRow{First: w.First, Row: w.Numbers})
			}
		}
	}
	switch {
	case ctx.Err() != nil:
		return engine.News{}, context.Cause(ctx)
	case err != nil:
		return engine.News{}, unreachable(err)
	case unknown:
		return engine.News{}, nil
	}
	return news, nil
}

// Found implements engine.Hearing.
func (h hearing) Found() {}

// Close implements engine.Hearing.
func (h hearing) Close() { _ = h.Unsubscribe() }
