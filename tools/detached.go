package tools

import (
	"context"
	"errors"

	"github.com/rs/zerolog"

	"runnel/partials"
	"runnel/rpc/rawjson"
	"runnel/tasks"
)

// Detach hands the call over to a supervisor: it makes the tool anew of what tool is as JSON, and runs it with the call's arguments. When
// Detach has returned nil, the tool must return, whatever it returns. follow, if it is not nil, reads the output for a client that
// wants progress: a supervisor knows no client.
func (c *Call) Detach(ctx context.Context, tool any, follow func(ctx context.Context, output *partials.Reader)) error {
	if c.run == nil || c.service.o.Detach == nil {
		return errors.New("cannot be detached: tasks live in memory here (--state)")
	}
	call := &Detached{TaskID: c.TaskID, Tool: rawjson.Encode(tool), Arguments: c.Arguments, Polls: c.polls()}
	if err := c.run.Detach(ctx, func() error { return c.service.o.Detach(call) }); err != nil {
		return err
	}
	if follow != nil && len(c.caller.Meta.ProgressToken) > 0 {
		c.run.Hold()
		output := c.run.Log().NewReader(0)
		c.run.Deliver(func(ctx context.Context) {
			defer output.Close()
			follow(ctx, output)
		})
	}
	return nil
}

// Take runs a detached call in this process, its supervisor. work says for people what that is.
func Take(ctx context.Context, runner *tasks.Runner, call *Detached, t Tool, work []byte, log zerolog.Logger) (*tasks.Run, error) {
	e, err := newEntry(t)
	if err != nil {
		return nil, err
	}
	s := &service{runner: runner, polls: call.Polls, o: ServeOptions{Log: log}}
	run, err := runner.Take(ctx, call.TaskID, work, s.spec(e, call.Arguments, s.deliver(nil, false, byResult), tasks.Spec{}))
	if err != nil {
		return nil, err
	}
	run.Delivered()
	return run, nil
}
