package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"sync"
	"weak"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
)

// addApp adds the tools of the app. A tool of the user's with the same name stays.
func (s *service) addApp(app *App) {
	for _, t := range app.Tools {
		if err := s.registry.addForApp(t); err != nil {
			s.o.Log.Warn().Err(err).Msg("a tool of the live view is left out")
		}
	}
}

// withPage is what a list shows of the tool to a client that shows the page at a URI. A tool that brings a page of its own keeps it.
func (e *entry) withPage(uri string) mcp.Tool {
	t := e.spec
	switch {
	case uri == "":
	case e.forApp:
		t.Meta = json.RawMessage(`{"ui":{"visibility":["app"]}}`)
	case e.shown && rawjson.Member(t.Meta, "ui") == nil:
		meta := t.Meta
		if len(meta) == 0 {
			meta = json.RawMessage("{}")
		}
		t.Meta = rawjson.WithMember(meta, "ui", map[string]string{"resourceUri": uri})
	}
	return t
}

// maxRecent is how many calls are remembered.
const maxRecent = 1000

// recentCalls are the last calls of clients that show apps, oldest first: the page knows the tool and the arguments of the call that it
// stands beside, and no task.
type recentCalls struct {
	mu    sync.Mutex
	calls []*recentCall
}

type recentCall struct {
	id, tool string
	session  *sessionMark            // nil in the stateless era
	run      weak.Pointer[tasks.Run] // a run that has ended, and its output, are not held
	viewed   bool                    // a page has found it
}

// sessionMark stands for a session. Over HTTP each request of the stateless era may have one of its own: what its clients have made belongs
// to all of them.
type sessionMark struct{ _ byte }

type sessionMarkKey struct{}

func markOf(c *rpc.Caller) *sessionMark {
	if c.Version.Stateless {
		return nil
	}
	return c.SessionValue(sessionMarkKey{}, func() any { return &sessionMark{} }).(*sessionMark)
}

// note remembers a call.
func (r *recentCalls) note(c *rpc.Caller, run *tasks.Run) {
	call := &recentCall{id: run.ID(), tool: run.Task().Tool, session: markOf(c), run: weak.Make(run)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.calls) == maxRecent {
		r.calls = append(r.calls[:0], r.calls[maxRecent/2:]...)
	}
	r.calls = append(r.calls, call)
}

// of are those of a tool, or of all if it is "", that the client can have made, newest first; those that no page has found come first.
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

// Recent returns the task of the newest call that the client has made, of a tool if one is named and with equal arguments if some are
// given: one that runs, or else one that has ended. Not every host tells the page its tool. A plain call that runs becomes a task that can be found. The id is "" if there is none.
func (c *Call) Recent(ctx context.Context, tool string, arguments json.RawMessage) (id string, err error) {
	r := &c.service.recent
	calls := r.of(c.caller, tool)
	for _, call := range calls {
		run := call.run.Value()
		if run == nil || isDone(run.Ended()) || arguments != nil && !sameArguments(arguments, run.Arguments()) {
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
		t, err := c.service.runner.Head(ctx, call.id)
		switch {
		case errors.Is(err, tasks.ErrNotFound): // it never was one, or has expired
		case err != nil:
			return "", err
		case arguments == nil || sameArguments(arguments, t.Arguments):
			return call.id, nil
		}
	}
	return "", nil
}

// sameArguments reports whether arguments are the same, however they are written: those of a page have been through its host.
func sameArguments(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// Startable returns the title of a tool, and reports whether Start can start it.
func (c *Call) Startable(tool string) (title string, ok bool) {
	e := c.service.registry.lookup(tool)
	if e == nil {
		return "", false
	}
	return e.spec.Title, e.taskSupport() != mcp.TaskForbidden
}

// Startables are the names of the tools that Start can start.
func (c *Call) Startables() (names []string) {
	for _, t := range c.service.registry.Tools() {
		if _, ok := c.Startable(t.Describe().Name); ok {
			names = append(names, t.Describe().Name)
		}
	}
	return names
}
