package tools

import (
	"context"
	"encoding/json"
	"errors"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// appTools returns the tools of the app. A user's tool with the same name stays.
func appTools(app *App) (own []*entry) {
	for _, t := range app.Tools {
		e := newOwnEntry(t)
		e.forApp = true
		own = append(own, e)
	}
	return own
}

// recentOf implements Call.Recent. Not every host tells the page which tool it belongs to.
func (s *service) recentOf(ctx context.Context, c *rpc.Caller, tool string, arguments json.RawMessage) (id string, err error) {
	r := &s.recent
	calls := r.of(c, tool)
	for _, call := range calls {
		run := call.run.Value()
		if run == nil || isDone(run.Ended()) || arguments != nil && !sameJSON(arguments, run.Arguments()) {
			continue
		}
		switch err := run.Promote(ctx); {
		case errors.Is(err, tasks.ErrEnded):
			continue
		case err != nil:
			return "", err
		}
		r.mu.Lock()
		call.viewed = true
		r.mu.Unlock()
		return call.id, nil
	}
	for _, call := range calls {
		t, err := s.runner.Head(ctx, call.id)
		switch {
		case errors.Is(err, tasks.ErrNotFound): // it never was a task, or has expired
		case err != nil:
			return "", err
		case arguments == nil || sameJSON(arguments, t.Arguments):
			return call.id, nil
		}
	}
	return "", nil
}

func (s *service) startable(tool string) (title string, ok bool) {
	e := s.registry.lookup(tool)
	if e == nil {
		return "", false
	}
	return e.spec.Title, e.taskSupport() != mcp.TaskForbidden
}

func (s *service) startables() (specs []mcp.Tool) {
	s.registry.mu.RLock()
	defer s.registry.mu.RUnlock()
	for _, e := range s.registry.tools {
		if e.taskSupport() != mcp.TaskForbidden {
			specs = append(specs, e.spec)
		}
	}
	return specs
}
