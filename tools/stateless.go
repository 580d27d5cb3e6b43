package tools

import (
	"context"
	"encoding/json"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// listTTL is how long clients may keep a tool list: it changes only with the config, and who listens is told at once.
const listTTL = time.Minute

func (s *service) listStateless(_ context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	list, err := s.list(nil, c, params)
	if err != nil {
		return nil, err
	}
	return mcp.CacheableTools{
		ListToolsResult: list.(mcp.ListToolsResult),
		Cacheable:       mcp.Cacheable{TTLMs: listTTL.Milliseconds(), CacheScope: "public"},
	}, nil
}

// callStateless answers tools/call of the stateless era. The server decides: what is finished soon is answered
// with its result; what is not becomes a task if the client can take one (ext-tasks, "Capability Negotiation"), else the
// client waits on, and is handed over to the fallback tools before its host gives up. params.task means nothing here.
func (s *service) callStateless(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	p, err := callParams(params)
	if err != nil {
		return nil, err
	}
	e := s.registry.lookup(p.Name)
	if e == nil {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "unknown tool: %q", p.Name)
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
	d := s.deliver(c, false, "")
	run, err := s.start(ctx, e, p.Arguments, d, tasks.Spec{})
	if err != nil {
		return nil, err
	}
	return s.answer(ctx, c, e, p, run, d)
}

// answer waits for what there is to say first: a result, a question, or that it takes longer.
func (s *service) answer(ctx context.Context, c *rpc.Caller, e *entry, p *mcp.CallToolParams, run *tasks.Run, d *delivery) (any, error) {
	support := e.taskSupport()
	canTask := c.Capabilities.Extends(mcp.ExtensionTasks) && support != mcp.TaskForbidden
	if canTask && support == mcp.TaskRequired {
		return s.makeTask(ctx, run, d)
	}
	begun := false
	deliver := func() {
		if !begun {
			begun = true
			run.Deliver(d.run)
		}
	}
	if !canTask {
		deliver()
	}
	wait, late := s.o.ImmediateWait, !canTask
	if late {
		if wait = s.o.SyncWait; wait == 0 || e.waits {
			wait = time.Duration(1<<63 - 1)
		}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-run.Worked():
			deliver()
			<-run.Ended()
			outcome := run.Task().Outcome
			if outcome.Err != nil {
				return nil, outcome.Err
			}
			return dressResult(c.Version, d.dress(outcome.Result)), nil
		case <-run.Asked():
			if questions := run.Questions(); len(questions) > 0 {
				return s.park(c, p, run, d, begun, questions)
			}
		case <-ctx.Done():
			run.Cancel("cancelled by the client")
			return nil, context.Cause(ctx)
		case <-timer.C:
			if !late {
				return s.makeTask(ctx, run, d)
			}
			if result := s.handOver(ctx, c, run, d); result != nil {
				return dressResult(c.Version, result), nil
			}
		}
	}
}

// makeTask hands out the task: from now on its client polls or listens. "notifications/progress and
// notifications/message [...] are not supported on tasks".
func (s *service) makeTask(ctx context.Context, run *tasks.Run, d *delivery) (any, error) {
	d.silence()
	if err := run.Promote(ctx); err != nil {
		run.Cancel(err.Error())
		return nil, err
	}
	return rpc.After{
		Result: run.Created(),
		Do:     func() { run.Deliver(func(context.Context) { d.begin() }) },
		Drop:   func() { run.Cancel("cancelled by the client") },
	}, nil
}

// park answers a call with its questions: the client answers them by sending the call again (basic/patterns/mrtr).
// Meanwhile the run waits, and is cancelled when nobody comes back in time.
func (s *service) park(c *rpc.Caller, p *mcp.CallToolParams, run *tasks.Run, d *delivery, begun bool, questions map[string]mcp.InputRequest) (any, error) {
	if begun {
		run.Hold()
	}
	d.silence()
	var position int64
	if d.reader != nil {
		position = d.reader.Pos()
	}
	state, err := s.parked.leave(p, parkedCall{run: run, position: position, current: d.current})
	if err != nil {
		run.Cancel("too many calls wait for answers")
		return nil, err
	}
	return mcp.InputRequiredResult{ResultType: mcp.ResultInputRequired, InputRequests: questions, RequestState: state}, nil
}

// goOn takes a call up again that was answered with questions.
func (s *service) goOn(ctx context.Context, c *rpc.Caller, e *entry, p *mcp.CallToolParams) (any, error) {
	if err := tasks.CheckResponses(p.InputResponses); err != nil {
		return nil, err
	}
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
		return s.park(c, p, run, d, false, questions)
	}
	return s.answer(ctx, c, e, p, run, d)
}
