package nats

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"runnel/tasks"
	"runnel/tasks/engine"
)

// askTimeout is how long a keeper may take to acknowledge a request.
const askTimeout = 2 * time.Second

// Ask implements engine.Store. The keeper acknowledges the request.
func (sp *space) Ask(ctx context.Context, r *engine.Record) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if _, err := sp.c.nc.RequestWithContext(ctx, sp.asks+r.Stored.Keeper, []byte(r.ID)); err != nil {
		return tasks.Trouble{Err: fmt.Errorf("the runnel that runs the task does not answer; if it is gone, the task ends within %v: %w", engine.LastNews, err)}
	}
	return nil
}

// hearAsk acknowledges the requests of others.
func (sp *space) hearAsk(m *nats.Msg) {
	sp.Want(string(m.Data))
	_ = m.Respond(nil)
}

// Asked implements engine.Store. Requests come as messages (hearAsk), and none is stored.
func (sp *space) Asked(context.Context) ([]string, error) { return nil, nil }

// hearing is a subscription to the messages that wake the followers of a task.
type hearing struct{ *nats.Subscription }

// Hear implements engine.Store.
func (sp *space) Hear(_ context.Context, id string) (engine.Hearing, error) {
	heard, err := sp.c.nc.SubscribeSync(sp.wakes + id)
	if err != nil {
		return nil, unreachable(err)
	}
	return hearing{heard}, nil
}

// Wait implements engine.Hearing.
func (h hearing) Wait(ctx context.Context) error {
	if _, err := h.NextMsgWithContext(ctx); err != nil && ctx.Err() == nil {
		return unreachable(err)
	}
	return context.Cause(ctx)
}

// Close implements engine.Hearing.
func (h hearing) Close() { _ = h.Unsubscribe() }
