package logs

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
)

const (
	// updatePace is the least time between two notifications about one log: who subscribes reads it again after each.
	updatePace = time.Second
	// maxSubscriptions bounds the goroutines that a client can have us start.
	maxSubscriptions = 100
)

var errSubscriptions = rpc.Errorf(mcp.CodeInternalError, "too many subscriptions: the limit is %d", maxSubscriptions)

// logWatch is one client's wish to be told when a resource has changed. The goroutine of a log's ends when the task has, with a last
// notification, when it is taken back, or with the runner.
type logWatch struct{ cancel context.CancelFunc }

// subscribe answers resources/subscribe (server/resources, "Subscriptions").
func (s *server) subscribe(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	if uri := rawjson.StringMember(params, "uri"); s.isForeign(c, uri) {
		return s.subscribeOthers(ctx, c, uri)
	}
	t, uri, _, err := s.findLog(ctx, c, params)
	if err != nil {
		return nil, err
	}
	if t.Status.Terminal() {
		return struct{}{}, nil // nothing will change
	}
	key := string(c.Head()) + uri
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watches[key] != nil {
		return struct{}{}, nil
	}
	if len(s.watches) >= maxSubscriptions {
		return nil, errSubscriptions
	}
	watch, cancel := context.WithCancel(context.Background())
	sub := &logWatch{cancel}
	if s.watches == nil {
		s.watches = map[string]*logWatch{}
	}
	s.watches[key] = sub
	return rpc.After{
		Result: struct{}{},
		Do: func() {
			s.runner.Go(func(ctx context.Context) {
				defer s.drop(key, sub)
				defer context.AfterFunc(ctx, cancel)()
				s.watchLog(watch, t.ID, t.Log.Size(), func() error {
					return c.NotifyWait(watch, "notifications/resources/updated", mcp.ResourceParams{URI: uri})
				})
			})
		},
		Drop: func() { s.drop(key, sub) },
	}, nil
}

func (s *server) unsubscribe(_ context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	var p mcp.ResourceParams
	if err := rawjson.Unmarshal(params, &p); err != nil || p.URI == "" {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.uri must be a resource's URI, such as %s", logTemplate)
	}
	key := string(c.Head()) + p.URI
	s.mu.Lock()
	sub := s.watches[key]
	s.mu.Unlock()
	if sub != nil {
		s.drop(key, sub)
	}
	return struct{}{}, nil
}

func (s *server) drop(key string, sub *logWatch) {
	sub.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watches[key] == sub {
		delete(s.watches, key)
	}
}

// watchLog tells when a task's log is longer than size, and once more when the task has ended.
func (s *server) watchLog(ctx context.Context, id string, size int64, tell func() error) {
	run, release, err := s.runner.Follow(ctx, id)
	defer release()
	if run == nil && (err == nil || errors.Is(err, tasks.ErrNotFound)) {
		_ = tell() // it has ended since; fails only when nobody is there to read it
	}
	if run == nil {
		return
	}
	for run.Log().Grown(ctx, size) == nil {
		next := time.NewTimer(updatePace)
		size = run.Log().Size()
		if tell() != nil {
			next.Stop()
			return
		}
		select {
		case <-next.C:
		case <-ctx.Done():
			next.Stop()
			return
		}
	}
	select { // the log is closed and nothing came, or ctx has ended
	case <-run.Ended():
		if t := run.Task(); t.Status.Terminal() { // else the runner is closed
			_ = tell()
		}
	case <-ctx.Done():
	}
}

// subscribeOthers answers resources/subscribe for a resource of another server.
func (s *server) subscribeOthers(ctx context.Context, c *rpc.Caller, uri string) (any, error) {
	key := string(c.Head()) + uri
	s.mu.Lock()
	there, many := s.watches[key] != nil, len(s.watches) >= maxSubscriptions
	s.mu.Unlock()
	switch {
	case there:
		return struct{}{}, nil
	case many:
		return nil, errSubscriptions
	}
	stop, err := s.o.Others.Subscribe(ctx, c, uri, func(params json.RawMessage) {
		_ = c.TryNotify("notifications/resources/updated", params) // fails only when nobody is there to read it
	})
	if err != nil {
		return nil, err
	}
	sub := &logWatch{stop}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watches[key] != nil {
		go stop() // the client has asked twice at once
		return struct{}{}, nil
	}
	if s.watches == nil {
		s.watches = map[string]*logWatch{}
	}
	s.watches[key] = sub
	return rpc.After{Result: struct{}{}, Drop: func() { s.drop(key, sub) }}, nil
}
