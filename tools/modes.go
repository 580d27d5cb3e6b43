package tools

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"runnel/rpc/mcp"
	"runnel/tasks"
)

// listed reports whether a client named a response mode in its request. One that named none does not know SEP-1905.
func listed(modes []mcp.ResponseMode, mode mcp.ResponseMode) bool {
	return slices.Contains(modes, mode)
}

// chooseMode is how a call is answered that has no immediate result (SEP-1905, "Server Response Decision Process"):
// streaming if the client listed it and the tool's results are "produced incrementally", else task; fallback
// if the client did not list task, which is where "it MUST fall back to" all the same and SHOULD say so.
func chooseMode(e *entry, modes []mcp.ResponseMode) (mode mcp.ResponseMode, fallback bool) {
	if listed(modes, mcp.ModeStreaming) && e.spec.Execution != nil && e.spec.Execution.StreamPartial {
		return mcp.ModeStreaming, false
	}
	return mcp.ModeTask, len(modes) > 0 && !listed(modes, mcp.ModeTask)
}

// finishes waits for the work to be done, as long as an immediate result may take.
func (s *service) finishes(ctx context.Context, run *tasks.Run) bool {
	t := time.NewTimer(s.o.ImmediateWait)
	defer t.Stop()
	select {
	case <-run.Worked():
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}

// immediate is case 1 of SEP-1905: the whole result, with a completed task behind it. Nothing is told of that task but
// its result.
func (d *delivery) immediate() (any, error) {
	run := d.run
	d.silence()
	run.Complete()
	run.Deliver(func(context.Context) {})
	<-run.Ended()
	outcome := run.Task().Outcome
	if outcome.Err != nil {
		return nil, outcome.Err
	}
	return tasks.WithRelated(dressResult(d.caller.Version, outcome.Result), run.ID()), nil
}

// firstResponse is case 3 of SEP-1905: the task, and what there is of its output. It waits a little for the
// first segment: lastSeqNr 0 is invalid, so an empty first response would leave nothing to resume from.
func (s *service) firstResponse(ctx context.Context, d *delivery) json.RawMessage {
	run := d.run
	wait, cancel := context.WithTimeout(ctx, s.o.ImmediateWait)
	defer cancel()
	r := run.Log().NewTail()
	_ = r.Wait(wait, 1) // whatever comes of it, what there is goes out
	handle := run.Handle()
	maps.Copy(handle.Meta, tasks.Related(run.ID()))
	first, complete := run.Segments().First(encode(handle.Task), encode(handle.Meta), mcp.MaxPage)
	if complete && d.streamed != nil {
		d.streamed()
	}
	return first
}
