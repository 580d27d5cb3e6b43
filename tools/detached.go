package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/rs/zerolog"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/feed"
	"runnel/tasks/run"
	"runnel/tools/schema"
)

// Detach hands the call over to a supervisor, which makes the tool again from tool (encoded as JSON) and runs
// it with the call's arguments. If Detach returns nil, the tool must return; its own result is ignored.
// follow, if not nil, reads the output for a client that wants progress: a supervisor knows no client.
func (c *Call) Detach(ctx context.Context, tool any,
	follow func(ctx context.Context, output *partials.Reader)) error {
	if c.run == nil || c.server.detacher() == nil {
		return errors.New("cannot be detached: tasks live in memory here (--state)")
	}
	defer c.audience.placed.Set()
	call := &Detached{TaskID: c.TaskID, Tool: rawjson.Encode(tool), Arguments: c.Arguments, Polls: c.polls(),
		Secrets:  c.run.Secrets(),
		Flattens: c.caller != nil && known(c.caller).Flattens, Known: c.audience.known.Done(), Ended: c.run.Ended()}
	call.Client.MaxResult, call.Client.MaxError = c.server.shows(c.caller)
	if err := c.run.Detach(ctx, func() error { return c.server.detacher()(call) }); err != nil {
		return err
	}
	c.goElsewhere(follow)
	return nil
}

// Offer lets a worker run the call, with the worker's own tool of that name; o says how. If Offer returns
// nil, the tool must return, as for Detach.
func (c *Call) Offer(ctx context.Context, o tasks.Offer,
	follow func(ctx context.Context, output *partials.Reader)) error {
	if c.run == nil {
		return tasks.ErrNoQueue
	}
	if c.run.Secrets().Holds(c.Arguments) {
		return errors.New("its arguments hold a secret (secrets in the config), and what is offered to " +
			"workers is stored: let the worker have it in its own environment")
	}
	defer c.audience.placed.Set()
	o.Arguments, o.Polls = c.Arguments, c.polls()
	o.Client = tasks.FarClient{Asks: c.Asks(), Progress: c.wantsProgress() && follow == nil}
	o.Client.MaxResult, o.Client.MaxError = c.server.shows(c.caller)
	if err := c.run.Offer(ctx, o); err != nil {
		return err
	}
	c.goElsewhere(follow)
	return nil
}

// Leaving returns a channel that is closed when the worker that runs the call takes no more calls. A tool
// that still waits for its turn then hands the call back. It is nil outside a worker.
func (c *Call) Leaving() <-chan struct{} {
	if c.server == nil {
		return nil
	}
	return c.server.detached().Leaving
}

// HandBack lets another worker run the call, if nothing of it has begun; confirmed: the user has confirmed
// it. If HandBack returns nil, the tool must return, as for Detach.
func (c *Call) HandBack(ctx context.Context, confirmed bool) error {
	o := c.server.detached().Offer
	o.Confirmed = o.Confirmed || confirmed
	return c.run.Offer(ctx, o)
}

// goElsewhere reports the progress of a call in another process to a client that wants progress: that it
// waits, and what follow finds in the output.
func (c *Call) goElsewhere(follow func(ctx context.Context, output *partials.Reader)) {
	if !c.wantsProgress() {
		return
	}
	c.run.Hold()
	c.run.Deliver(func(context.Context) { c.tellWaiting() })
	if follow == nil {
		return
	}
	c.run.Hold()
	output := c.run.Log().NewReader(0)
	c.run.Deliver(func(ctx context.Context) {
		defer output.Close()
		follow(ctx, output)
	})
}

// wantsProgress reports whether the call has a client that wants progress.
func (c *Call) wantsProgress() bool { return c.caller != nil && len(c.caller.Meta.ProgressToken) > 0 }

// tellWaiting reports as progress that the call waits for a worker, until the call has ended.
func (c *Call) tellWaiting() {
	changed, stop := c.run.Watch()
	defer stop()
	for told := ""; ; {
		if t := c.run.Task(); t.Waiting && t.StatusMessage != told {
			told = t.StatusMessage
			c.audience.report(tasks.Progress{Message: told}, nil)
		}
		select {
		case <-changed:
		case <-c.run.Worked():
			return
		case <-c.run.Context().Done():
			return
		}
	}
}

// Take runs a detached or offered call in this process, which is its supervisor or worker. work describes the
// process to people.
func Take(ctx context.Context, runner *run.Runner, call *Detached, t Tool, work []byte,
	log zerolog.Logger) (*run.Run, error) {
	s := &service{registry: call.Tools, runner: runner, taken: *call, o: ServeOptions{Log: log, Source: noSource{}}}
	if s.registry == nil {
		s.registry = &Registry{}
	}
	e := s.registry.lookup(t.Describe().Name) // a worker's: its schema is compiled once, not for each call
	if e == nil {
		e = newEntry(t)
	}
	d := s.deliver(nil, false, feed.ByResult)
	d.audience.far = call.Client
	spec := s.spec(e, call.Arguments, d, run.Spec{})
	run, err := runner.Take(ctx, call.TaskID, work, spec)
	if err != nil {
		return nil, err
	}
	d.begin(run)
	run.Delivered()
	return run, nil
}

// Begin is called by a tool that workers run when its work begins: from then on it is not handed back. The
// log of a later attempt says so.
func (c *Call) Begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if c.server == nil {
		return nil
	}
	attempt, host := c.run.Task().Attempt, c.server.detached().Host
	if attempt < 2 || host == "" {
		return nil
	}
	return c.sayLine(ctx, fmt.Sprintf("[attempt %d on %s]\n", attempt, host))
}

// SayAttempt writes to the log that another attempt begins, and why: what the one before has written stays. A
// tool that retries calls it with 2 for the second attempt. It fails if the call has ended.
func (c *Call) SayAttempt(ctx context.Context, attempt int, why string) error {
	if c.run == nil { // in a test
		return nil
	}
	return c.sayLine(ctx, fmt.Sprintf("[attempt %d: %s]\n", attempt, why))
}

// sayLine writes a line of runnel's own to the log, below what the tool has written.
func (c *Call) sayLine(ctx context.Context, line string) error {
	if size := c.run.Log().Size(); size > 0 {
		last, _, err := c.run.Log().ReadAt(ctx, size-1, 1)
		if chunks := last.Chunks(); err == nil && len(chunks) > 0 &&
			!bytes.HasSuffix(chunks[len(chunks)-1].Data, []byte("\n")) {
			line = "\n" + line // the last attempt was cut off within a line
		}
	}
	return c.run.Log().Append(ctx, partials.Chunk{Data: []byte(line)})
}

// offered is a tool that only workers have: each call is offered to them.
type offered struct {
	spec   mcp.Tool
	offer  tasks.Offer
	schema *schema.Checker
}

// NewOffered makes a tool from a worker's description. offer says how its calls are offered.
// Add it to a Registry, so that clients can call a tool which only workers have.
func NewOffered(spec mcp.Tool, offer tasks.Offer) Tool {
	// Runnel decides that.
	spec.Execution = &mcp.ToolExecution{TaskSupport: mcp.TaskOptional, StreamPartial: true}
	return &offered{spec: spec, offer: offer, schema: schema.New(spec.InputSchema, "")}
}

// Describe returns the worker's own description.
func (t *offered) Describe() mcp.Tool { return t.spec }

// Traits returns what the server needs to know about it.
func (t *offered) Traits() Traits { return Traits{Detached: true} }

// Replace does nothing: running calls continue where they are.
func (t *offered) Replace(Tool) {}

// Call lets a worker run the call. The arguments are checked here, too, so that a mistake is reported at once
// and not only by a worker.
func (t *offered) Call(ctx context.Context, in *Call, _ *Output) (*mcp.CallToolResult, error) {
	fitted, err := t.schema.Fit(in.Arguments)
	if err != nil {
		return mcp.ErrorResult(err.Error()), nil
	}
	in.Arguments = fitted
	return nil, in.Offer(ctx, t.offer, nil)
}
