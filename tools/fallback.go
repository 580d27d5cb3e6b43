package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/feed"
	"runnel/tasks/methods"
	"runnel/tasks/run"
	"runnel/tools/fallback"
	"runnel/tools/reading"
)

// fallbackTools returns the fallback tools. If another tool has the name of one, their names begin with
// fallbackPrefix.
func (s *service) fallbackTools() (own []*entry) {
	if s.o.FallbackTools == "never" {
		return nil
	}
	for _, t := range (&fallback.Tools{Runner: s.runner, Host: fallbackHost{s}}).All() {
		e := newOwnEntry(FuncWith(mcp.Tool{
			Name:        t.Name,
			Description: t.Description,
			InputSchema: ObjectSchema(t.Properties, t.Required),
			Execution:   &mcp.ToolExecution{TaskSupport: mcp.TaskForbidden},
		}, func(ctx context.Context, in *Call, p fallback.Params, _ *Output) (*mcp.CallToolResult, error) {
			call := &fallback.Call{Caller: in.caller, Request: in.Request}
			result, err := t.Call(ctx, call, &p)
			in.Said.Passed = call.Passes
			if wire, ok := errors.AsType[*rpc.Error](err); ok {
				err = errors.New(wire.Message) // a model reads tool errors, and may correct its mistake
			}
			return result, err
		}))
		e.extra, e.shown, e.types = true, t.Shown, t.Name == fallback.SendToTask
		e.named = t.Name == "get_task_result" || t.Name == "cancel_task" || t.Name == fallback.SendToTask
		own = append(own, e)
	}
	return own
}

// fallbackHost is the service as the fallback tools need it.
type fallbackHost struct{ *service }

func (h fallbackHost) Name(tool string) string { return h.registry.fallbackName(tool) }

func (h fallbackHost) Start(ctx context.Context, c *rpc.Caller, tool string,
	arguments json.RawMessage) (*run.Run, error) {
	return h.startFor(ctx, c, tool, arguments)
}

func (h fallbackHost) Reader(c *rpc.Caller, t *tasks.Task) *reading.Reader { return h.reader(c, t) }

func (h fallbackHost) TakesInput(tool string) bool {
	e := h.registry.lookup(tool)
	return e != nil && e.traits.TakesInput
}

func (h fallbackHost) PasswordWords(t *tasks.Task) string { return h.passwordWords(t) }

func (h fallbackHost) AskPassword(ctx context.Context, in *fallback.Call, v *run.View, t *tasks.Task) bool {
	return h.askFromCall(ctx, in, v, t)
}

// typed reports whether models type into calls of a tool. send_to_task is listed for all clients then.
func (s *service) typed(e *entry) bool { return e.traits.TakesInput && s.o.FallbackTools != "never" }

func (s *service) traitsOf(t *tasks.Task) (traits Traits) {
	if e := s.registry.lookup(t.Tool); e != nil {
		traits = e.traits
	}
	return traits
}

// reader reads a task for the model of a client.
func (s *service) reader(c *rpc.Caller, t *tasks.Task) *reading.Reader {
	traits := s.traitsOf(t)
	return &reading.Reader{Session: reading.Of(c), Task: t, Most: s.mostOf(c, t), KeepFrames: traits.KeepFrames,
		Screen: traits.Screen, Secrets: s.runner.Secrets(), Poller: s.poller(c)}
}

// mostOf returns how much of a task's output an answer shows, in bytes.
func (s *service) mostOf(c *rpc.Caller, t *tasks.Task) int {
	most := cmp.Or(s.traitsOf(t).MaxResult, s.maxResult(c))
	if ofError := known(c).MaxError; ofError > 0 && t.Status.Terminal() && reading.IsError(t) {
		most = min(most, ofError)
	}
	return most
}

type fallbackSeenKey struct{}

// fallbackSeen is what a session knows of the fallback tools.
type fallbackSeen struct {
	sync.Once // done once its list has shown them

	// session gets the notifications. The caller of the list is another: its sessionId and stream end with
	// the request.
	session *rpc.Caller
}

// seenBy returns what the session of c knows. The first call, from OnSession, has the session's own caller.
func seenBy(c *rpc.Caller) *fallbackSeen {
	return c.SessionValue(fallbackSeenKey{}, func() any { return &fallbackSeen{session: c} }).(*fallbackSeen)
}

// startFor starts a tool as a task for a client.
func (s *service) startFor(ctx context.Context, c *rpc.Caller, tool string,
	arguments json.RawMessage) (*run.Run, error) {
	e := s.lookup(ctx, c, tool)
	if e == nil {
		return nil, s.unknown(tool)
	}
	if e.taskSupport() == mcp.TaskForbidden {
		return nil, fmt.Errorf("tool %q cannot run as a task: call it directly", tool)
	}
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	if _, err := e.fit(arguments, s.runner.Secrets()); err != nil {
		return nil, fmt.Errorf("%w; %s has not been started", err, tool)
	}
	d := s.deliver(c, false, feed.ByResult)
	d.audience.left.Store(true)
	run, err := s.start(ctx, e, arguments, d, run.Spec{Handle: true})
	if err != nil {
		return nil, err
	}
	d.Start()
	return run, nil
}

// fallbackHidden reports whether a client's list leaves out the fallback tools, because it can use tasks.
func (s *service) fallbackHidden(c *rpc.Caller) bool {
	return s.o.FallbackTools != "always" && methods.CanUse(c)
}
