package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"

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
	call := &Detached{TaskID: c.TaskID, Tool: rawjson.Encode(tool), Arguments: c.Arguments, Polls: c.polls(), Secrets: c.run.Secrets()}
	if err := c.run.Detach(ctx, func() error { return c.service.o.Detach(call) }); err != nil {
		return err
	}
	c.goElsewhere(follow)
	return nil
}

// Offer lets a worker run the call, with the tool of its name there; o says how. When Offer has returned nil, the tool must return, as for
// Detach.
func (c *Call) Offer(ctx context.Context, o tasks.Offer, follow func(ctx context.Context, output *partials.Reader)) error {
	if c.run == nil {
		return tasks.ErrNoQueue
	}
	if c.run.Secrets().Holds(c.Arguments) {
		return errors.New("its arguments hold a secret (secrets in the config), and what is offered to workers is stored: let the worker have it in its own environment")
	}
	o.Arguments, o.Polls = c.Arguments, c.polls()
	o.Client = tasks.FarClient{Asks: c.Asks(), Progress: len(c.caller.Meta.ProgressToken) > 0 && follow == nil}
	if err := c.run.Offer(ctx, o); err != nil {
		return err
	}
	c.goElsewhere(follow)
	return nil
}

// goElsewhere tells a client that wants progress how the call goes on that another process runs: that it waits, and what follow finds in the
// output.
func (c *Call) goElsewhere(follow func(ctx context.Context, output *partials.Reader)) {
	if len(c.caller.Meta.ProgressToken) == 0 {
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

// tellWaiting reports as progress that the call waits for a worker, until it has ended.
func (c *Call) tellWaiting() {
	changed, stop := c.run.Watch()
	defer stop()
	for told := ""; ; {
		if t := c.run.Task(); t.Waiting && t.StatusMessage != told {
			told = t.StatusMessage
			c.audience.report(0, 0, told)
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

// Take runs a call that was detached or offered in this process, its supervisor or worker. work says for people what that is.
func Take(ctx context.Context, runner *tasks.Runner, call *Detached, t Tool, work []byte, log zerolog.Logger) (*tasks.Run, error) {
	e, err := newEntry(t)
	if err != nil {
		return nil, err
	}
	s := &service{runner: runner, polls: call.Polls, confirmed: call.Confirmed, o: ServeOptions{Log: log}}
	d := s.deliver(nil, false, byResult)
	d.audience.far = call.Client
	spec := s.spec(e, call.Arguments, d, tasks.Spec{})
	run, err := runner.Take(ctx, call.TaskID, work, markAttempt(spec, call.Host))
	if err != nil {
		return nil, err
	}
	run.Delivered()
	return run, nil
}

// markAttempt writes a line into the log of a task that another worker has begun before.
func markAttempt(spec tasks.Spec, host string) tasks.Spec {
	work := spec.Work
	spec.Work = func(ctx context.Context, run *tasks.Run) tasks.Done {
		if t := run.Task(); t.Attempt > 1 {
			line := fmt.Sprintf("attempt %d on %s\n", t.Attempt, host)
			if size := run.Log().Size(); size > 0 {
				last, _, err := run.Log().ReadAt(ctx, size-1, 1)
				if chunks := last.Chunks(); err == nil && len(chunks) > 0 && !bytes.HasSuffix(chunks[len(chunks)-1].Data, []byte("\n")) {
					line = "\n" + line // the last attempt was cut off in a line
				}
			}
			if err := run.Log().Append(ctx, partials.Chunk{Data: []byte(line)}); err != nil {
				return tasks.Done{Err: err}
			}
		}
		return work(ctx, run)
	}
	return spec
}
