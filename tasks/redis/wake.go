package redis

import (
	"context"

	"github.com/redis/rueidis"

	"runnel/tasks/engine"
)

// Ask implements engine.Store.
func (sp *space) Ask(ctx context.Context, r *engine.Record) error {
	_, err := sp.call(ctx, "ask", r.ID, sp.Left(&r.Task))
	return err
}

// Asked implements engine.Store.
func (sp *space) Asked(ctx context.Context) ([]string, error) {
	answer, err := sp.read(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Smembers().Key(sp.root + "asked:" + sp.Keeper).Build()
	})
	if err != nil {
		return nil, err
	}
	ids, _ := answer.AsStrSlice()
	return ids, nil
}

// hearing hears what is said on a task's channel.
type hearing struct {
	heard chan struct{} // capacity 1
	stop  context.CancelFunc
	ended chan struct{}
}

// Hear implements engine.Store.
func (sp *space) Hear(ctx context.Context, id string) (engine.Hearing, error) {
	h := &hearing{heard: make(chan struct{}, 1), ended: make(chan struct{})}
	ctx, h.stop = context.WithCancel(ctx)
	go func() {
		defer close(h.ended)
		c, channel := sp.server.client, sp.root+"wake:"+id
		began := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { h.tell() }) // what was stored before was not heard
		_ = c.Receive(began, c.B().Subscribe().Channel(channel).Build(), func(rueidis.PubSubMessage) { h.tell() })
		leave, cancel := context.WithTimeout(context.Background(), leaveTimeout)
		defer cancel()
		c.Do(leave, c.B().Unsubscribe().Channel(channel).Build()) // Receive leaves the server subscribed
	}()
	return h, nil
}

func (h *hearing) tell() {
	select {
	case h.heard <- struct{}{}:
	default:
	}
}

// Wait implements engine.Hearing.
func (h *hearing) Wait(ctx context.Context) error {
	select {
	case <-h.heard:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close implements engine.Hearing.
func (h *hearing) Close() {
	h.stop()
	<-h.ended
}
