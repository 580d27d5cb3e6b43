package logs

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
)

const (
	// updatePace is the shortest time between two notifications about one log: the client reads it again
	// after each.
	updatePace = time.Second
	// maxSubscriptions limits the goroutines that one client can start.
	maxSubscriptions = 100
)

const resourceUpdated = "notifications/resources/updated"

var errSubscriptions = rpc.Errorf(mcp.CodeInternalError, "too many subscriptions: the limit is %d",
	maxSubscriptions)

// subscribe answers resources/subscribe (server/resources, "Subscriptions").
func (s *server) subscribe(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	uri := rawjson.StringMember(params, "uri")
	size := int64(0)
	id := ""
	foreign := s.isForeign(c, uri)
	if !foreign {
		t, named, _, err := s.findLog(ctx, c, params)
		if err != nil {
			return nil, err
		}
		if t.Status.Terminal() {
			return struct{}{}, nil // nothing will change
		}
		uri = named
		size = t.Log.Size()
		id = t.ID
	}
	key := string(c.Head()) + uri
	watch, cancel := c.WhileOpen(context.Background())
	sub, watches := &logWatch{cancel}, watchesOf(c)
	if there, err := watches.enter(key, sub); there || err != nil {
		cancel()
		return struct{}{}, err
	}
	answer := rpc.After{Result: struct{}{}, Drop: func() { watches.drop(key, sub) }}
	if foreign {
		stop, err := s.o.Others.Subscribe(ctx, c, uri, func(params json.RawMessage) {
			_ = c.TryNotify(resourceUpdated, params) // fails only when the client is gone
		})
		if err != nil {
			watches.drop(key, sub)
			return nil, err
		}
		context.AfterFunc(watch, stop)
		return answer, nil
	}
	answer.Do = func() {
		s.runner.Go(func(ctx context.Context) {
			defer watches.drop(key, sub)
			defer context.AfterFunc(ctx, cancel)()
			s.watchLog(watch, id, size, func() error {
				return c.NotifyWait(watch, resourceUpdated,
					mcp.ResourceParams{URI: uri})
			})
		})
	}
	return answer, nil
}

// watches are the subscriptions of a session.
type watches struct {
	mu sync.Mutex
	by map[string]*logWatch // by head and URI
}

type watchesKey struct{}

func watchesOf(c *rpc.Caller) *watches {
	return c.SessionValue(watchesKey{}, func() any { return &watches{by: map[string]*logWatch{}} }).(*watches)
}

// enter adds a subscription, unless it is there already or there are too many.
func (w *watches) enter(key string, sub *logWatch) (there bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.by[key] != nil:
		return true, nil
	case len(w.by) >= maxSubscriptions:
		return false, errSubscriptions
	}
	w.by[key] = sub
	return false, nil
}

func (s *server) unsubscribe(_ context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	var p mcp.ResourceParams
	if err := rawjson.Unmarshal(params, &p); err != nil || p.URI == "" {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.uri must be a resource's URI, such as %s",
			logTemplate)
	}
	key := string(c.Head()) + p.URI
	watches := watchesOf(c)
	watches.mu.Lock()
	sub := watches.by[key]
	watches.mu.Unlock()
	if sub != nil {
		watches.drop(key, sub)
	}
	return struct{}{}, nil
}

func (w *watches) drop(key string, sub *logWatch) {
	sub.cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by[key] == sub {
		delete(w.by, key)
	}
}

// watchLog announces when a task's log is longer than size, and once more when the task has ended.
func (s *server) watchLog(ctx context.Context, id string, size int64, notify func() error) {
	run, release, err := s.runner.Follow(ctx, id)
	defer release()
	if run == nil && (err == nil || errors.Is(err, tasks.ErrNotFound)) {
		_ = notify() // it has ended since; fails only when the client is gone
	}
	if run == nil {
		return
	}
	for run.Log().Grown(ctx, size) == nil {
		next := time.NewTimer(updatePace)
		size = run.Log().Size()
		if notify() != nil {
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
		if t := run.Task(); t.Status.Terminal() { // otherwise the runner is closed
			_ = notify()
		}
	case <-ctx.Done():
	}
}
