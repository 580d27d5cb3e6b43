package command

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"runnel/internal/pause"
	"runnel/rpc/mcp"
	"runnel/tools"
	"runnel/tools/artifacts"
	"runnel/tools/process"
	"runnel/tools/text"
)

// attempts runs the command of a call, and again after a failure as its retry says. The log keeps the output
// of all attempts; the result is that of the last one.
func (c *Command) attempts(ctx context.Context, in *tools.Call, out *tools.Output,
	spec *process.Spec) *mcp.CallToolResult {
	for attempt := 2; ; attempt++ {
		each := *spec
		result, o := c.run(ctx, in, out, &each)
		if o == nil || attempt > c.config.Retry.Times+1 || !c.worthAnother(o) || ctx.Err() != nil {
			return result
		}
		wait := c.config.Retry.Pause(attempt)
		out.Progress(0, 0, fmt.Sprintf("%s: attempt %d begins in %s", o.verdict, attempt, text.Seconds(wait)))
		if !pause.For(ctx, wait) || in.SayAttempt(ctx, attempt, o.verdict) != nil {
			return result
		}
		in.Said = tools.Said{}
	}
}

// worthAnother reports whether the outcome of an attempt is one after which retry begins another.
func (c *Command) worthAnother(o *outcome) bool {
	switch {
	case o.TimedOut:
		return c.config.Retry.Timeout
	case !o.timed: // neither an exit code that is a failure nor a signal
		return false
	}
	return c.config.Retry.After(o.ExitCode)
}

// run runs the command of a call once. o is nil if it has not been started.
func (c *Command) run(ctx context.Context, in *tools.Call, out *tools.Output,
	spec *process.Spec) (result *mcp.CallToolResult, o *outcome) {
	variables, err := newVariablesFile(in)
	if err != nil {
		return mcp.ErrorResult(err.Error()), nil
	}
	defer variables.remove()
	if variables != nil {
		spec.Env = append(spec.Env, process.VariablesVariable+"="+variables.path)
	}
	if err := c.confine(in, spec, variables); err != nil {
		return mcp.ErrorResult(err.Error()), nil
	}
	proxy, endProxy := c.reach(ctx, in, spec)
	defer endProxy()

	made := artifacts.Watch(c.dir, c.config.Artifacts)
	defer made.Close()

	began := time.Now()
	p, err := process.Start(spec)
	if err != nil {
		return mcp.ErrorResult(err.Error()), nil
	}
	out.Log().SetLimit(int64(*c.config.MaxOutput))
	r := newRecord(ctx, &c.config, out, in.MaxResult(c.maxResult()), newWatcher(&c.config, in))
	endInput := c.feed(ctx, in, p, r)
	ending := p.Run(ctx, &r.stdout, &r.stderr, process.Limits{
		Timeout: time.Duration(c.config.Timeout),
		Idle:    time.Duration(c.config.IdleTimeout),
		Grace:   time.Duration(*c.config.Grace),
	})
	endInput()
	r.stdout.finish()
	r.stderr.finish()
	o = r.outcome(ending, time.Since(began))
	o.check(c.outputs)
	if err := variables.merge(ctx, in); err != nil {
		o.fail(err.Error())
	}
	o.bounds = refused(proxy, in.CanAsk())
	if o.failed() {
		if o.bounds == "" {
			o.bounds = cmp.Or(c.askToWrite(ctx, in, o.last()), c.bounds(o.last()))
		}
		o.most = in.MaxError(c.maxResult())
		in.Said.Status = o.statusMessage()
	}
	files := made.Collect(ctx, in, out.Secrets())
	in.Said.Rest = new(append(o.end(), files...))
	result = o.result(in.LeftOut(ctx))
	result.Content = append(result.Content, files...)
	in.Said.Truncated = o.Truncated
	return result, o
}
