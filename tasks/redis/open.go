package redis

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"runnel/tasks/engine"
)

// Open implements engine.Engine.
func (s *connection) Open(ctx context.Context, of *engine.Space) (engine.Store, engine.Queue, error) {
	sp := &space{Space: of, server: s, root: s.o.Prefix + ":" + of.Name + ":"}
	found, err := sp.call(ctx, "open", "", 0)
	if err == nil {
		err = engine.CheckSchema(sp.root+"*", found, schema)
	}
	if err != nil {
		return nil, nil, err
	}
	sp.Go(sp.listen)
	return sp, nil, nil
}

// listen receives the requests of others, until Close. Those that are sent while the connection is lost are found by Asked.
func (sp *space) listen(ctx context.Context) {
	c := sp.server.client
	for again := true; again; again = engine.Pause(ctx, time.Second) {
		_ = c.Receive(ctx, c.B().Subscribe().Channel(sp.root+"ask:"+sp.Keeper).Build(), func(rueidis.PubSubMessage) { sp.Notice() })
	}
}
