package tools

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
)

// listTTL is how long clients may keep a tool list: it changes only with the config and with upstreams, and who listens is told
// at once. One that lacks an upstream's tools is not to be kept.
const listTTL = time.Minute

func (s *service) listStateless(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	list, err := s.list(ctx, c, params)
	if err != nil {
		return nil, err
	}
	// The fallback tools are shown to clients without tasks only: "private is appropriate [...] for filtered list
	// results" (2026-07-28 server/utilities/caching).
	scope := "public"
	if s.o.FallbackTools == "" || s.o.FallbackTools == "auto" {
		scope = "private"
	}
	fresh := listTTL
	if !s.o.Source.Whole() {
		fresh = 0
	}
	return withHints(list.(rpc.Encoded), mcp.Cacheable{TTLMs: fresh.Milliseconds(), CacheScope: scope}), nil
}

// withHints is a result with caching hints.
func withHints(result rpc.Encoded, hints mcp.Cacheable) rpc.Encoded {
	return append(append(result[:len(result)-1], ','), encode(hints)[1:]...)
}

// callStateless answers tools/call of the stateless era. The server decides: what is finished soon is answered
// with its result; what is not becomes a task if the client can take one (ext-tasks, "Capability Negotiation"), else the
// client waits on, and is handed over to the fallback tools before its host gives up. params.task means nothing here.
func (s *service) callStateless(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	p, e, err := s.called(ctx, c, params)
	if err != nil {
		return nil, err
	}
	if e.taskSupport() == mcp.TaskRequired && !s.o.RequiredFallthrough {
		// "If a server is unable to service a request [...] without returning CreateTaskResult"
		if err := tasks.NeedTasks(c); err != nil {
			return nil, err
		}
	}
	if p.RequestState != "" {
		return s.goOn(ctx, c, e, p)
	}
	// A tool that requires a task gets one before it starts: a refusal must find nothing under way.
	task := canTask(c, e) && e.taskSupport() == mcp.TaskRequired
	d := s.deliver(c, false, "")
	variables, err := callVariables(c)
	if err != nil {
		return nil, err
	}
	spec := tasks.Spec{Handle: task, Variables: variables, Late: canTask(c, e) || !e.traits.Bounded}
	if _, err := s.start(ctx, e, p.Arguments, d, spec); err != nil {
		return nil, err
	}
	if task {
		return created(d), nil
	}
	return s.answer(ctx, e, p, d)
}

// canTask reports whether a call may be answered with a task: "A server MUST NOT return CreateTaskResult to a client that
// did not include the extension capability on its request".
func canTask(c *rpc.Caller, e *entry) bool {
	return c.Capabilities.Extends(mcp.ExtensionTasks) && e.taskSupport() != mcp.TaskForbidden
}

// answer answers a call with what there is to say first: its result, its questions, or that it takes longer. A client that can take
// a task gets one after ImmediateWait, and until then nothing is written, because the task's handle comes before its output. Any
// other client waits for the result as long as its patience lasts, and is handed over then.
func (s *service) answer(ctx context.Context, e *entry, p *mcp.CallToolParams, d *delivery) (any, error) {
	c, run := d.caller, d.run
	task, worked := canTask(c, e), run.Worked()
	late := time.NewTimer(s.o.ImmediateWait)
	defer late.Stop()
	waitForResult := func() {
		task, worked = false, run.Worked()
		d.start()
		late.Reset(s.patience(e))
	}
	switch {
	case !task:
		waitForResult()
	case s.o.ImmediateWait == 0:
		worked = nil // nothing is done so soon
	}
	for {
		select {
		case <-run.Ended():
			return d.answer()
		case <-run.Asked():
			if questions := run.Questions(); len(questions) > 0 {
				return s.park(p, d, questions)
			}
		case <-ctx.Done():
			giveUp(ctx, run)
			return nil, context.Cause(ctx)
		case <-worked: // the run ends as soon as its output has been written
			worked = nil
			late.Stop()
			d.start()
		case <-late.C:
			switch questions := run.Questions(); {
			case isDone(worked): // at the same time
			case !task && s.canGoOn(c):
				if result := s.handOver(ctx, e, d); result != nil {
					return rpc.After{Result: dressResult(c.Version, result), Drop: drop(run)}, nil
				}
			case !task:
			case len(questions) > 0:
				// "SHOULD resolve all MRTR exchanges synchronously before responding with a CreateTaskResult"
				return s.park(p, d, questions)
			case e.traits.Detached && !isDone(run.Detached()) && !isDone(run.Worked()):
				late.Reset(detachPoll) // its handle is for what outlives this process
			case run.Promote(ctx) == nil:
				return created(d), nil
			default: // there is no room for one more task
				waitForResult()
			}
		}
	}
}

// detachPoll is how often a call looks whether its supervisor has taken it.
const detachPoll = 10 * time.Millisecond

// isDone reports whether a channel has been closed.
func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// patience is how long a client waits that cannot take a task.
func (s *service) patience(e *entry) time.Duration {
	if s.o.SyncWait == 0 || e.traits.Bounded {
		return math.MaxInt64
	}
	return s.o.SyncWait
}

// created hands out the task: from now on its client polls or listens. "notifications/progress and
// notifications/message [...] are not supported on tasks".
func created(d *delivery) any {
	run := d.run
	d.silence()
	return rpc.After{
		Result: run.Created(),
		Do:     func() { run.Deliver(func(context.Context) { d.begin() }) },
		Drop:   drop(run),
	}
}

// park answers a call with its questions: the client answers them by sending the call again (basic/patterns/mrtr).
// Meanwhile the run waits, and is cancelled when nobody comes back in time.
func (s *service) park(p *mcp.CallToolParams, d *delivery, questions map[string]mcp.InputRequest) (any, error) {
	run := d.run
	if err := needCapabilities(d.caller, questions); err != nil {
		// "Servers MUST NOT send an inputRequests that the client has not declared support for": the client that
		// comes back with answers may declare less than the one that called.
		run.Cancel(err.Error())
		return nil, err
	}
	if d.started {
		run.Hold()
	}
	d.silence()
	var position int64
	if d.reader != nil {
		position = d.reader.Pos()
	}
	if d.started && d.spelling == byPR383 {
		d.endPartials()
	}
	state, drop, err := s.parked.leave(p, parkedCall{run: run, position: position, current: d.current})
	if err != nil {
		run.Cancel(err.Error())
		return nil, err
	}
	return rpc.After{
		Result: mcp.InputRequiredResult{ResultType: mcp.ResultInputRequired, InputRequests: questions, RequestState: state},
		Drop:   drop,
	}, nil
}

// needCapabilities refuses to put questions to a client that cannot answer one of them.
func needCapabilities(c *rpc.Caller, questions map[string]mcp.InputRequest) error {
	for _, q := range questions {
		switch {
		case canDo(c, q.Method, q.Params):
		case q.Method == "elicitation/create" && rawjson.StringMember(q.Params, "mode") != "url":
			return needElicitation(c)
		default:
			return &rpc.Error{Code: mcp.CodeMissingCapability, Message: "missing required client capability for " + q.Method,
				Data: json.RawMessage(requiredFor[q.Method])}
		}
	}
	return nil
}

// requiredFor is the data of the error about a missing capability, by what is asked.
var requiredFor = map[string]string{
	"elicitation/create":     `{"requiredCapabilities":{"elicitation":{"url":{}}}}`,
	"sampling/createMessage": `{"requiredCapabilities":{"sampling":{}}}`,
	"roots/list":             `{"requiredCapabilities":{"roots":{}}}`,
}

// needElicitation refuses what asks the user of a client that cannot: "If processing a request requires a capability the
// client did not include [...], the server MUST return a MissingRequiredClientCapabilityError" (2026-07-28 basic, "_meta").
func needElicitation(c *rpc.Caller) error {
	if c.Capabilities.AsksByForm() {
		return nil
	}
	return &rpc.Error{
		Code:    mcp.CodeMissingCapability,
		Message: "missing required client capability: elicitation by form",
		Data:    json.RawMessage(`{"requiredCapabilities":{"elicitation":{"form":{}}}}`),
	}
}

// goOn takes a call up again that was answered with questions.
func (s *service) goOn(ctx context.Context, c *rpc.Caller, e *entry, p *mcp.CallToolParams) (any, error) {
	parked, err := s.parked.take(p)
	if err != nil {
		return nil, err
	}
	run := parked.run
	d := s.deliver(c, false, "")
	d.from, d.current = parked.position, parked.current
	d.prepare(run)
	run.Answer(p.InputResponses)
	if questions := run.Questions(); len(questions) > 0 {
		// "the server SHOULD respond with a new InputRequiredResult requesting the missing information again"
		return s.park(p, d, questions)
	}
	return s.answer(ctx, e, p, d)
}
