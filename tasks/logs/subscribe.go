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
	for {
		next := time.NewTimer(updatePace)
		ended, err := s.grown(ctx, id, &size)
		if errors.Is(err, errSame) {
			err = nil
		} else if err == nil {
			err = tell()
		}
		if err != nil || ended {
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
}

// errSame says that a log has not grown.
var errSame = errors.New("nothing new")

// grown waits, where it can, until a task's log is longer than size, and sets size; ended tells that the task has.
func (s *server) grown(ctx context.Context, id string, size *int64) (ended bool, err error) {
	if run := s.runner.Running(id); run != nil {
		if err := run.Log().Grown(ctx, *size); err == nil {
			*size = run.Log().Size()
			return false, nil
		} else if ctx.Err() != nil {
			return false, err
		}
		select { // the log is closed and nothing came: the end is near
		case <-run.Ended():
			return true, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	t, err := s.runner.Get(ctx, id)
	if errors.Is(err, tasks.ErrNotFound) {
		return true, nil
	} else if err != nil {
		return false, err
	}
	ended = t.Status.Terminal()
	if n := t.Log.Size(); n > *size || ended {
		*size = n
		return ended, nil
	}
	return false, errSame
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
