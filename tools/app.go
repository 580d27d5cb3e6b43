package tools

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"weak"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/run"
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
func (s *service) recentOf(ctx context.Context, c *rpc.Caller, tool string,
	arguments json.RawMessage) (id string, err error) {
	r := &s.recent
	calls := r.of(c, tool)
	for _, call := range calls {
		run := call.run.Value()
		if run == nil || isDone(run.Ended()) || arguments != nil && !rawjson.Same(arguments, run.Arguments()) {
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
		case arguments == nil || rawjson.Same(arguments, t.Arguments):
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

// maxRecent is how many calls are remembered.
const maxRecent = 1000

// recentCalls are the latest calls of clients that show apps, oldest first. The page knows the tool and the
// arguments of the call that it is shown beside, but not its task.
type recentCalls struct {
	mu    sync.Mutex
	calls []*recentCall
}

type recentCall struct {
	id, tool string
	session  *sessionMark          // nil in the stateless era
	run      weak.Pointer[run.Run] // weak, so that a run that has ended is not kept in memory with its output
	viewed   bool                  // a page has found it
}

// sessionMark identifies a session. Over HTTP each request of the stateless era may have its own: what its
// clients have made belongs to all of them.
type sessionMark struct{ _ byte }

type sessionMarkKey struct{}

func markOf(c *rpc.Caller) *sessionMark {
	if c.Version.Stateless {
		return nil
	}
	return c.SessionValue(sessionMarkKey{}, func() any { return &sessionMark{} }).(*sessionMark)
}

// note remembers a call.
func (r *recentCalls) note(c *rpc.Caller, run *run.Run) {
	call := &recentCall{id: run.ID(), tool: run.Task().Tool, session: markOf(c), run: weak.Make(run)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.calls) == maxRecent {
		r.calls = append(r.calls[:0], r.calls[maxRecent/2:]...)
	}
	r.calls = append(r.calls, call)
}

// of returns the calls of a tool, or of all tools if it is "", that the client may have made, newest first;
// those that no page has found come first.
func (r *recentCalls) of(c *rpc.Caller, tool string) (calls []*recentCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var viewed []*recentCall
	for _, call := range slices.Backward(r.calls) {
		switch {
		case tool != "" && call.tool != tool || call.session != markOf(c):
		case call.viewed:
			viewed = append(viewed, call)
		default:
			calls = append(calls, call)
		}
	}
	return append(calls, viewed...)
}
