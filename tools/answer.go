package tools

import (
	"context"
	"encoding/json"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks/feed"
	"runnel/tasks/methods"
	"runnel/tasks/run"
	"runnel/tools/reading"
	"runnel/tools/terminal"
)

// callStateless answers tools/call of the stateless era. The server decides: a call that finishes soon is
// answered with its result; a longer one becomes a task if the client can take one (ext-tasks, "Capability
// Negotiation"). Otherwise the client waits, and gets the fallback tools before its host gives up.
// params.task has no meaning here.
func (s *service) callStateless(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	p, e, err := s.called(ctx, c, params)
	if err != nil {
		return nil, err
	}
	if e.taskSupport() == mcp.TaskRequired && !s.o.RequiredFallthrough {
		// "If a server is unable to service a request [...] without returning CreateTaskResult"
		if err := methods.NeedTasks(c); err != nil {
			return nil, err
		}
	}
	if p.RequestState != "" {
		return s.resume(ctx, c, e, p)
	}
	// A tool that requires a task gets one before it starts, so that a refusal leaves nothing running.
	task := canTask(c, e) && e.taskSupport() == mcp.TaskRequired
	d := s.deliver(c, false, feed.Choose(c, false, ""))
	d.params = p.Raw
	variables, err := callVariables(c)
	if err != nil {
		return nil, err
	}
	spec := run.Spec{Handle: task, Variables: variables, Late: canTask(c, e) || !e.traits.bounded}
	if _, err := s.start(ctx, e, p.Arguments, d, spec); err != nil {
		return nil, err
	}
	if task {
		return created(d), nil
	}
	return s.answer(ctx, e, p, d)
}

// canTask reports whether a call may be answered with a task: "A server MUST NOT return CreateTaskResult to a
// client that did not include the extension capability on its request".
func canTask(c *rpc.Caller, e *entry) bool {
	return c.Version.Stateless && c.Capabilities.Extends(mcp.ExtensionTasks) &&
		e.taskSupport() != mcp.TaskForbidden
}

// answer answers a call with whatever comes first: its result, its questions, or a note that it takes longer.
func (s *service) answer(ctx context.Context, e *entry, p *mcp.CallToolParams, d *delivery) (any, error) {
	// The server decides what becomes a task. An answer about one that is typed into has the id that
	// send_to_task needs, and who waits for the end of one that serves waits for ever.
	serves := e.traits.Serves && s.o.FallbackTools != "never"
	if canTask(d.Caller, e) && !s.typed(e) && !serves {
		return s.answerSoon(ctx, e, p, d)
	}
	return s.answerInTime(ctx, e, p, d, s.patience(ctx, d, e))
}

// answerSoon answers a client that can take a task with one if the work takes longer than ImmediateWait.
// Until then no output is written, because the task's handle comes before it, and progress only where it can
// be seen.
func (s *service) answerSoon(ctx context.Context, e *entry, p *mcp.CallToolParams, d *delivery) (any, error) {
	run := d.Run
	worked := d.Run.Worked()
	soon := s.immediateWait(d.Caller)
	switch {
	case soon == 0:
		worked = nil // nothing is done that soon
	case !d.Writes():
		worked = nil
		d.Start() // there is nothing to write: the end does not wait for this goroutine
	case d.Spelling == feed.ByProgress && soon >= time.Second: // until it is a task, its host shows that
		d.Start()
	}
	what, questions := next(ctx, d, worked, time.After(soon), d.audience.unasked.Done())
	if what == isLate && d.audience.apart { // a handle is for work that outlives this process
		what, questions = next(ctx, d, run.Worked(), d.audience.placed.Done(), nil)
	}
	if what == isLate && !d.audience.mute.Load() {
		// "SHOULD resolve all MRTR exchanges synchronously before responding with a CreateTaskResult"
		if questions = run.Questions(); len(questions) > 0 {
			what = isAsked
		}
	}
	switch {
	case what == isReached: // it ends as soon as its output has been written
		return s.answerInTime(ctx, e, p, d, nil)
	case what != isLate && what != isUnasked:
		return s.say(ctx, e, what, questions, p, d)
	case run.Promote(ctx) == nil:
		return created(d), nil
	default: // the limit of live tasks is reached
		return s.answerInTime(ctx, e, p, d, s.patience(ctx, d, e))
	}
}

// answerInTime answers a client that waits for the result, until the tool is ready or it is late. Then the
// call is handed over, if possible.
func (s *service) answerInTime(ctx context.Context, e *entry, p *mcp.CallToolParams, d *delivery,
	late <-chan time.Time) (any, error) {
	d.Start()
	ready := d.Run.BecomesReady()
	unasked := d.audience.unasked.Done()
	for {
		what, questions := next(ctx, d, ready, late, unasked)
		switch what {
		case isReached:
			ready = nil
			select {
			case <-d.Run.Worked(): // its result says how
				continue
			case <-ctx.Done():
				continue
			case <-time.After(provenReady):
			}
		case isLate:
			late = nil
			if d.Caller.Version.Stateless && len(d.Run.Questions()) > 0 &&
				!d.audience.mute.Load() { // its client must see them
				late = time.After(together)
				continue
			}
		case isUnasked: // only others can answer, perhaps days later
			unasked = nil
		default:
			return s.say(ctx, e, what, questions, p, d)
		}
		if result := s.handOver(ctx, e, d); result != nil {
			return rpc.After{Result: dressResult(d.Caller.Version, result), Drop: drop(d.Run)}, nil
		}
	}
}

// provenReady is how long a tool must go on after it was ready. A server that cannot have its port has often
// said before that it listens.
const provenReady = 50 * time.Millisecond

// event is the first thing that happens to a call while its request waits.
type event int

const (
	isEnded   event = iota
	isReached       // what the caller waits for: the work is done, or the tool is ready
	isAsked
	isCancelled
	isLate
	isUnasked // steps have a question, and the caller's client does not ask its user
)

// together is how long another question may follow one and still travel with it: the client has to send the
// call again for each answer. A person does not notice it, and on a busy machine the questions of one tool
// come some milliseconds apart.
const together = 25 * time.Millisecond

// next waits for the first event, and returns it with the questions if it is isAsked.
func next[T any](ctx context.Context, d *delivery, reached <-chan struct{}, late <-chan T,
	unasked <-chan struct{}) (event, map[string]mcp.InputRequest) {
	var changed <-chan struct{} // nil: questions are sent to the client as requests
	if d.Caller.Version.Stateless {
		var stop func()
		changed, stop = d.Run.Watch()
		defer stop()
	}
	ended := d.Run.Ended()
	for {
		// Questions may be closed after the end.
		if changed != nil && !isDone(ended) && !d.audience.mute.Load() {
			for n := 0; len(d.Run.Questions()) > n; {
				n = len(d.Run.Questions())
				time.Sleep(together)
			}
			if questions := d.Run.Questions(); len(questions) > 0 {
				return isAsked, questions
			}
		}
		select {
		case <-ended:
			return isEnded, nil
		case <-reached:
			if isDone(ended) { // both at the same time
				return isEnded, nil
			}
			return isReached, nil
		case <-unasked:
			return isUnasked, nil
		case <-changed:
		case <-ctx.Done():
			return isCancelled, nil
		case <-late:
			switch { // both at the same time
			case ctx.Err() != nil:
				return isCancelled, nil
			case isDone(reached):
				return isReached, nil
			}
			return isLate, nil
		}
	}
}

// say answers a call as an event requires.
func (s *service) say(ctx context.Context, e *entry, what event, questions map[string]mcp.InputRequest,
	p *mcp.CallToolParams, d *delivery) (any, error) {
	switch what {
	case isAsked:
		return s.park(p, d, questions)
	case isCancelled:
		d.Silence() // nothing of a call comes after its answer
		s.giveUp(ctx, e, d.Run, d.Caller)
		return nil, context.Cause(ctx)
	default:
		return d.answer()
	}
}

// isDone reports whether a channel has been closed.
func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// firstSettle is how long a new program has until its first output settles.
const firstSettle = 10 * time.Second

// patience returns a channel that receives when a client that cannot take a task has waited long enough; nil:
// never. A call that takes input is handed over as soon as its output settles, since its model types only
// then.
func (s *service) patience(ctx context.Context, d *delivery, e *entry) <-chan time.Time {
	wait := s.o.SyncWait
	if ofHost := known(d.Caller).SyncWait; s.o.ByClient.SyncWait && ofHost > 0 {
		wait = ofHost
	}
	if s.typed(e) && s.canResume(d.Caller) {
		late := make(chan time.Time, 1)
		go func() { // ends with the request, or when the output has settled
			var from int64
			if size := e.traits.Screen; size != [2]int{} { // the log begins with it
				from = int64(len(terminal.Resized(size[0], size[1])))
			}
			reading.Settle(ctx, &d.Run.View, from, 0, firstSettle)
			late <- time.Now()
		}()
		return late
	}
	if wait == 0 || e.traits.bounded {
		return nil
	}
	return time.After(wait)
}

// listenWait is how long a tool with much output waits for a client that takes the task's partials to
// subscribe to them: memory would release the earlier output.
const listenWait = 5 * time.Second

// created answers with the task: from now on its client polls or listens. "notifications/progress and
// notifications/message [...] are not supported on tasks".
func created(d *delivery) any {
	run := d.Run
	if d.Started() {
		run.Hold()
	}
	if d.Caller.Capabilities.Extends(mcp.ExtensionTaskPartials) {
		run.Log().Expect(listenWait)
	}
	d.audience.known.Set()
	d.Silence()
	return rpc.After{
		Result: run.Created(),
		Do:     func() { run.Deliver(func(context.Context) { d.ShowStatuses() }) },
		Drop:   drop(run),
	}
}

// park answers a call with its questions; the client answers them by sending the call again
// (basic/patterns/mrtr). Until then the run waits, and is cancelled if the client does not come back in time.
func (s *service) park(p *mcp.CallToolParams, d *delivery,
	questions map[string]mcp.InputRequest) (any, error) {
	run := d.Run
	for _, q := range questions {
		// "Servers MUST NOT send an inputRequests that the client has not declared support for": the client
		// that comes back with answers may declare less than the one that made the call.
		if err := need(d.Caller, q.Method, q.Params); err != nil {
			run.Cancel(err.Error())
			return nil, err
		}
	}
	if d.Started() {
		run.Hold()
	}
	d.Silence()
	position := d.Pos()
	if d.Started() && d.Spelling == feed.PR383 {
		d.EndPartials()
	}
	state, err := s.parked.put(p, &parkedCall{audience: d.audience, position: position})
	if err != nil {
		run.Cancel(err.Error())
		return nil, err
	}
	return rpc.After{
		Result: mcp.InputRequiredResult{ResultType: mcp.ResultInputRequired, InputRequests: questions,
			RequestState: state},
		Drop: func() { s.parked.giveUp(state, "cancelled by the client") },
	}, nil
}

// resume continues a call that was answered with questions.
func (s *service) resume(ctx context.Context, c *rpc.Caller, e *entry, p *mcp.CallToolParams) (any, error) {
	parked, err := s.parked.claim(p)
	if err != nil {
		return nil, err
	}
	d := s.deliverRest(c, parked.audience, parked.position)
	if err := d.Run.Answer(ctx, p.InputResponses); err != nil {
		s.giveUp(ctx, e, d.Run, c)
		return nil, err
	}
	questions := d.Run.Questions()
	if len(questions) > 0 && d.Run.Dismisses(p.InputResponses) {
		// Its user does not want to answer now: the call goes on as a task, where others can.
		if canTask(c, e) && d.Run.Promote(ctx) == nil {
			return created(d), nil
		}
		d.Start() // the end of the run waits for a delivery since it was parked
		if result := s.handOver(ctx, e, d); result != nil {
			return rpc.After{Result: dressResult(c.Version, result), Drop: drop(d.Run)}, nil
		}
	}
	if len(questions) > 0 {
		// "the server SHOULD respond with a new InputRequiredResult requesting the missing information again"
		return s.park(p, d, questions)
	}
	return s.answer(ctx, e, p, d)
}
