package redis

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"runnel/internal/pause"
	"runnel/internal/signal"
	"runnel/tasks/engine"
)

// Ask implements engine.Driver.
func (sp *space) Ask(ctx context.Context, r *engine.Record) error {
	_, err := sp.call(ctx, "ask", r.ID, sp.Lifetime(&r.Task))
	return err
}

// Asked implements engine.Driver.
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

// channel is the channel of a task. Unsubscribing ends it for all listeners of this process, so the last one
// does it.
type channel struct {
	leaving   sync.Mutex // held while the last listener unsubscribes; before connection.mu
	listeners int        // guarded by connection.mu
}

// enter counts a new listener of a channel.
func (s *connection) enter(name string) *channel {
	s.mu.Lock()
	c := s.channels[name]
	if c == nil {
		c = &channel{}
		s.channels[name] = c
	}
	c.listeners++
	s.mu.Unlock()
	c.leaving.Lock() // otherwise it might be unsubscribed from after it is subscribed to
	defer c.leaving.Unlock()
	return c
}

// leave unsubscribes from a channel if it has no listeners left: Receive does not.
func (s *connection) leave(c *channel, name string) {
	c.leaving.Lock()
	defer c.leaving.Unlock()
	s.mu.Lock()
	c.listeners--
	last := c.listeners == 0
	s.mu.Unlock()
	if !last {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	s.client.Do(ctx, s.client.B().Unsubscribe().Channel(name).Build())
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.listeners == 0 { // otherwise somebody waits in enter
		delete(s.channels, name)
	}
}

// hearing receives from a task's channel.
type hearing struct {
	heard signal.Wake
	stop  context.CancelFunc
	ended chan struct{}
}

// Hear implements engine.Driver.
func (sp *space) Hear(ctx context.Context, id string) (engine.Hearing, error) {
	h := &hearing{heard: signal.NewWake(), ended: make(chan struct{})}
	ctx, h.stop = context.WithCancel(ctx)
	go func() {
		defer close(h.ended)
		s, name := sp.server, sp.root+"wake:"+id
		defer s.leave(s.enter(name), name)
		// The first look comes after the subscription: a wake from before it is not heard.
		began := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { h.heard.Send() })
		for {
			subscribe := s.client.B().Subscribe().Channel(name).Build()
			_ = s.client.Receive(began, subscribe, func(rueidis.PubSubMessage) { h.heard.Send() })
			if !pause.For(ctx, hearAgain) { // otherwise the connection was lost
				return
			}
		}
	}()
	return h, nil
}

// hearAgain is the pause before a channel is subscribed to again.
const hearAgain = 250 * time.Millisecond

// Found implements engine.Hearing.
func (h *hearing) Found() {}

// Wait implements engine.Hearing.
func (h *hearing) Wait(ctx context.Context) (engine.News, error) {
	select {
	case <-h.heard:
		return engine.News{}, nil
	case <-ctx.Done():
		return engine.News{}, context.Cause(ctx)
	}
}

// Close implements engine.Hearing.
func (h *hearing) Close() {
	h.stop()
	<-h.ended
}
