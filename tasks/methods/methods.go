package methods

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"runnel/internal/clients"
	"runnel/internal/signal"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/run"
)

// methods are the handlers.
type methods struct {
	*run.Runner
	merging chan struct{} // holds an element for each merged result in memory
}

// Register adds the tasks methods of both eras to srv, and declares the tasks capability.
func Register(srv *rpc.Server, r *run.Runner) {
	m := &methods{r, make(chan struct{}, maxMerging)}
	srv.Declare(func(c *rpc.Caller, caps *mcp.ServerCapabilities) {
		if c.Version.Tasks {
			caps.Tasks = &mcp.ServerTasks{
				List:      &mcp.Present{},
				Cancel:    &mcp.Present{},
				Requests:  &mcp.TaskRequests{},
				Streaming: &mcp.TaskStreaming{Partial: &mcp.Present{}},
				Responses: &mcp.TaskResponses{Modes: []mcp.ResponseMode{mcp.ModeTask, mcp.ModeImmediate,
					mcp.ModeStreaming}},
			}
		}
		if c.Version.Stateless {
			// It must be exactly {}: with any key inside, the official client treats tasks as absent.
			caps.Extensions = map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage("{}"),
				mcp.ExtensionTaskPartials: json.RawMessage("{}")}
		}
	})
	srv.Handle(rpc.Handshake, "tasks/get", m.limited(withTask(m.getTask)))
	srv.Handle(rpc.Handshake, "tasks/result", m.limited(withTask(m.taskResult)))
	srv.Handle(rpc.Handshake, "tasks/cancel", m.limited(withTask(m.cancelTask)))
	srv.Handle(rpc.Handshake, "runnel/tasks/variables", m.limited(withTasks(m.setVariables)))
	srv.Handle(rpc.Handshake, "tasks/list", m.limited(withTasks(m.listTasks)))
	// The tasks extension (ext-tasks, "Tasks") has no tasks/result and no tasks/list.
	srv.Handle(rpc.Stateless, "tasks/get", m.limited(extended(m.getDetailed)))
	srv.Handle(rpc.Stateless, "tasks/update", m.limited(extended(m.updateTask)))
	srv.Handle(rpc.Stateless, "tasks/cancel", m.limited(extended(m.cancelDetailed)))
	srv.Handle(rpc.Stateless, "runnel/tasks/variables",
		m.limited(func(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
			if err := NeedTasks(c); err != nil {
				return nil, err
			}
			return m.setVariables(ctx, c, params)
		}))
}

// limited refuses requests about tasks that exceed the limit.
func (m *methods) limited(h rpc.Handler) rpc.Handler {
	return func(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
		if err := m.CountRequest(); err != nil {
			return nil, err
		}
		return h(ctx, c, params)
	}
}

// withTasks refuses a method in a session whose version has no tasks. A client that uses one in another
// session can use tasks.
func withTasks(h rpc.Handler) rpc.Handler {
	return func(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
		if !c.Version.Tasks {
			return nil, rpc.Errorf(mcp.CodeMethodNotFound, "protocol version %s has no tasks", c.Version.Name)
		}
		Used(c).Set()
		return h(ctx, c, params)
	}
}

// withTask is withTasks for a method whose params name a task.
func withTask(h func(ctx context.Context, c *rpc.Caller, p mcp.TaskParams) (any, error)) rpc.Handler {
	return withTasks(func(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
		var p mcp.TaskParams
		if err := rawjson.Unmarshal(params, &p); err != nil || p.TaskID == "" {
			return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.taskId must be a task's id")
		}
		return h(ctx, c, p)
	})
}

// Readable returns a task as its client can take it, and its model can read it: "Servers MUST NOT send an
// inputRequests that the client has not declared support for" (2026-07-28 basic/patterns/mrtr). A task whose
// question others can answer is working for such a client, and says how its user answers. Some clients show
// the error of a task without its newlines, and only its head: there the result of a command that has failed
// is not an error, and says in its first line and in its last how the command ended.
func Readable(c *rpc.Caller, t mcp.DetailedTask) mcp.DetailedTask {
	if t.Status == mcp.TaskInputRequired && t.WaitsFor != "" && !c.Capabilities.AsksByForm() {
		before := len(t.InputRequests)
		maps.DeleteFunc(t.InputRequests, func(_ string, q mcp.InputRequest) bool {
			return q.Method == "elicitation/create" && rawjson.StringMember(q.Params, "mode") != "url"
		})
		if before > 0 && len(t.InputRequests) == 0 {
			t.Status = mcp.TaskWorking
			t.StatusMessage = t.WaitsFor
		}
	}
	if t.Result == nil || !t.Result.IsError || t.Result.Meta[mcp.MetaCommand] == nil ||
		!clients.Find(c.Client.Name, c.Client.Version).Flattens {
		return t
	}
	verdict, _, _ := strings.Cut(t.StatusMessage, "\n")
	result := *t.Result
	result.IsError = false
	result.Content = slices.Clone(result.Content)
	for n, item := range result.Content {
		if text, ok := mcp.TextOf(item); ok {
			result.Content[n] = mcp.Text("failed: " + verdict + "\n" + text)
			break
		}
	}
	if len(result.Content) > 1 { // its first text ends with that line
		result.Content = append(result.Content, mcp.Text("failed: "+verdict))
	}
	t.Result = &result
	return t
}

// Most hosts cannot use tasks, even if their protocol version has them. Those that can show it in their
// sessions: they declare tasks, or use them.

type usedKey struct{}

// Used returns the latch that is set when the caller's session uses tasks, by a task method or by a
// task-augmented call. Use it for what only such a client expects.
func Used(c *rpc.Caller) *signal.Latch {
	return c.SessionValue(usedKey{}, func() any { return &signal.Latch{} }).(*signal.Latch)
}

// CanUse reports whether the caller has shown that it can use tasks.
func CanUse(c *rpc.Caller) bool {
	if c.Version.Stateless {
		return c.Capabilities.Extends(mcp.ExtensionTasks)
	}
	return c.Version.Tasks && (c.Capabilities.Tasks != nil || Used(c).IsSet())
}

// setVariables answers runnel/tasks/variables with the variables, after it has set those in the request, if
// there are any.
func (m *methods) setVariables(ctx context.Context, _ *rpc.Caller, params json.RawMessage) (any, error) {
	var p struct {
		TaskID string          `json:"taskId"`
		Set    json.RawMessage `json:"set"`
	}
	if err := rawjson.Unmarshal(params, &p); err != nil || p.TaskID == "" {
		return nil, rpc.Errorf(mcp.CodeInvalidParams,
			"params must be {\"taskId\": a task's id, \"set\": an object}; without set the variables are "+
				"only shown")
	}
	if run := m.Running(p.TaskID); run != nil {
		set := p.Set
		if len(set) == 0 {
			set = json.RawMessage("{}") // the answer also has what other processes have set
		}
		if merged, err := run.SetVariables(ctx, set); len(p.Set) > 0 || err == nil {
			return setAnswer(merged, err)
		}
	}
	t, err := m.Head(ctx, p.TaskID)
	if err != nil {
		return nil, tasks.WireError(err)
	}
	if len(p.Set) == 0 {
		return shownVariables(t.Variables), nil
	}
	if err := tasks.CheckVariables(p.Set); err != nil {
		return nil, err
	}
	return setAnswer(m.SetStored(ctx, t.ID, m.Secrets().JSON(p.Set)))
}

// setAnswer is the answer to a request that sets variables.
func setAnswer(merged json.RawMessage, err error) (any, error) {
	switch {
	case errors.Is(err, tasks.ErrEnded):
		return nil, rpc.Errorf(mcp.CodeInvalidParams,
			"the variables of a task can be set while it runs; it has ended")
	case err != nil:
		return nil, err
	}
	return shownVariables(merged), nil
}

// shownVariables is the answer to runnel/tasks/variables.
func shownVariables(v json.RawMessage) any {
	v = tasks.OwnVariables(v)
	switch {
	case v == nil:
		v = json.RawMessage("{}")
	case len(v) > mcp.MaxContent:
		return map[string]any{"_meta": map[string]any{mcp.MetaVariablesBytes: len(v)}}
	}
	return map[string]json.RawMessage{"variables": v}
}
