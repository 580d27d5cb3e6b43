package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"runnel/tasks/engine"
)

// Open implements engine.Engine.
func (s *connection) Open(ctx context.Context, of *engine.Space) (engine.Store, engine.Queue, error) {
	sp := &space{Space: of, server: s, root: s.o.Prefix + ":" + of.Name + ":"}
	found, err := sp.call(ctx, "open", "", 0)
	if err != nil {
		return nil, nil, err
	}
	if found != schema {
		return nil, nil, fmt.Errorf("what stands in %s* has version %.32q, and this runnel knows %s: use the runnel that made it, or another prefix (?prefix=NAME)", sp.root, found, schema)
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
