package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"runnel/internal/signal"
	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tools/secrets"
)

// do runs the work, and returns when the run has ended.
func (r *Run) do() {
	rpc.GrowStack()
	defer func() { // Runner.Close no longer waits for it
		if r.kept == handle { // short calls do not contend for this lock; kept does not change after the end
			r.runner.mu.Lock()
			delete(r.runner.working, r)
			r.runner.mu.Unlock()
		}
		r.runner.all.Done()
	}()
	if done := r.work(); r.away() { // the work has handed the task over
		r.follow()
	} else {
		r.finishWith(done)
	}
}

// finishWith ends the run with the result of its work, unless it was aborted. What follows the tool is in
// functions of its own, here and in package tools, and Done is passed by pointer, so that it takes no stack
// while the tool runs: stacks only shrink to 4 KiB if less than
// 1.2 KiB of them is in use.
func (r *Run) finishWith(done *Done) {
	var wire *rpc.Error
	if done.Err != nil {
		wire = HideError(r.secrets, r.wireError(done.Err))
	}
	done.mask(r.secrets)
	if why := r.abortReason(); why != nil { // then the result of the work does not count
		done, wire = &Done{Result: mcp.ErrorResult(why.Error()), Status: why.Error()}, nil
	}
	r.setEnding(done.Result, done.Rest, wire)
	r.workReturned()
	r.awaitDelivery()
	if r.ctx.Err() != nil { // as after a loss of output, too
		if why := r.abortReason(); why != nil {
			r.abort(why)
			return
		}
	}
	switch {
	case wire != nil:
		r.finish(nil, mcp.TaskFailed, wire.Message, &tasks.Outcome{Err: wire})
	case done.Result.IsError && !r.completes():
		// "when the tool result has isError set to true, the task should reach failed status" (tasks, "Task
		// Execution Errors")
		r.finish(nil, mcp.TaskFailed, done.Status, &tasks.Outcome{Result: done.Result})
	default:
		r.finish(nil, mcp.TaskCompleted, done.Status, &tasks.Outcome{Result: done.Result})
	}
}

// work calls the tool and turns its panic into an error.
func (r *Run) work() (done *Done) {
	done = &Done{}
	defer func() {
		if p := recover(); p != nil {
			r.runner.o.Log.Error().Str("taskId", r.ID()).Str("owner", r.runner.o.Owner).
				Str("tool", r.spec.Tool).
				Str("panic", fmt.Sprint(p)).Bytes("stack", debug.Stack()).Msg("tool panicked")
			done.Err = rpc.Errorf(mcp.CodeInternalError, "internal error")
		}
	}()
	*done = r.spec.Work(r.ctx, r)
	if done.Err == nil && done.Result == nil {
		done.Result = &mcp.CallToolResult{}
	}
	return done
}

// wireError returns the error of the work as a JSON-RPC error. The text of an error that is not one is only
// logged.
func (r *Run) wireError(err error) *rpc.Error {
	wire, ok := errors.AsType[*rpc.Error](err)
	if !ok {
		r.runner.o.Log.Error().Err(err).Str("taskId", r.id).Str("owner", r.runner.o.Owner).
			Str("tool", r.spec.Tool).Msg("tool failed")
		wire = rpc.Errorf(mcp.CodeInternalError, "internal error")
	}
	return wire
}

// deliveries write a run's output to its client.
type deliveries struct {
	expected int          // still to be started
	running  int          // that have not yet written the last of the output
	drained  signal.Latch // all of it is written
}

// Deliver starts a delivery in a goroutine: deliver writes the task's output to a client. Deliver or
// Delivered is called once for each run, and once for each Hold: the task does not end before.
func (r *Run) Deliver(deliver func(ctx context.Context)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deliveries.expected--
	r.deliveries.running++
	r.runner.all.Go(func() {
		deliver(r.ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.deliveries.running--
		r.checkDrained()
	})
}

// Delivered replaces Deliver where nothing is written while the work runs.
func (r *Run) Delivered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deliveries.expected--
	r.checkDrained()
}

// Hold makes the run wait for one more Deliver.
func (r *Run) Hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deliveries.expected++
}

// checkDrained sets drained if the last of the output has been written. That is never so while the work runs:
// a delivery with nothing to write returns at once, and a question of the work may add another delivery. r.mu
// is held.
func (r *Run) checkDrained() {
	// A call that was parked while its work ended may still add a delivery.
	if d := &r.deliveries; r.phase >= draining && d.expected+d.running == 0 {
		d.drained.Set()
	}
}

// workReturned closes the log; from now on the run is drained as soon as the deliveries have returned.
func (r *Run) workReturned() {
	r.log.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.worked.Set()
	if r.phase < draining { // it may have been aborted
		r.setPhase(draining)
	}
	r.checkDrained()
}

// awaitDelivery waits until the last of the log has been delivered, or the task is aborted. "Drain, then
// end": the terminal status comes after the last partial, so a client that does not read delays the end.
func (r *Run) awaitDelivery() {
	if r.deliveries.drained.IsSet() {
		return
	}
	select {
	case <-r.deliveries.drained.Done():
	case <-r.ctx.Done():
	}
}

const (
	// drainWait is how long an aborted task waits for its deliveries at a time. If the process is suspended
	// meanwhile, only one such wait is lost.
	drainWait = 100 * time.Millisecond
	// drainIdle is how many waits may pass while the client reads nothing: together as long as a client has
	// at the end of a session.
	drainIdle = 20
	// drainWaits is how many waits there are in all, for a client that reads slowly.
	drainWaits = 100
)

// deliverRest lets the deliveries of an aborted task write what is in the log, as long as the client reads:
// no partial may be missing before this end, either.
func (r *Run) deliverRest() {
	r.log.Close()
	lag, idle := r.log.Lag(), 0
	for range drainWaits {
		r.mu.Lock()
		r.checkDrained()
		// A parked call expects a delivery, but its client may never come back.
		waits := r.deliveries.running > 0 || r.deliveries.expected > 0 && r.kept == handle
		r.mu.Unlock()
		if !waits || idle == drainIdle {
			return
		}
		select {
		case <-r.deliveries.drained.Done():
			return
		case <-time.After(drainWait):
		}
		idle++
		if left := r.log.Lag(); left < lag {
			lag, idle = left, 0
		}
	}
}

// setEnding sets how the output ends, unless that is already known. rest are the items of the result that do
// not repeat the output; nil means all of them.
func (r *Run) setEnding(result *mcp.CallToolResult, rest *[]mcp.ContentBlock, err *rpc.Error) {
	if err != nil {
		result, rest = mcp.ErrorResult(err.Message), nil
	}
	if rest == nil {
		rest = &result.Content
	}
	r.segments.Finish(partials.Ending{Rest: *rest, IsError: result.IsError})
}

// Complete lets an error result complete the task, too: "Tasks in immediate mode that return results
// immediately MUST have status completed" (SEP-1905, "Task Status"). The task's own result is then its
// result, even if Spec.Merge is set.
// Call it before Deliver.
func (r *Run) Complete() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errorCompletes, r.task.Merge = true, false
}

// completes reports whether an error result completes the task.
func (r *Run) completes() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.errorCompletes || r.runner.o.ErrorsComplete
}

// Secrets returns the values that the run must not show, as they were when it began; nil if there are none.
// Use it to mask output before it is appended to the log.
func (r *Run) Secrets() *secrets.Set { return r.secrets }

// Secrets returns the values that a run which starts now must not show; nil if there are none.
func (r *Runner) Secrets() *secrets.Set { return r.o.Secrets.Set() }

// mask masks secrets in the outcome of work. Its output was masked before it reached the log.
func (d *Done) mask(s *secrets.Set) {
	if s == nil || d.Masked {
		return
	}
	d.Status, d.Result = s.String(d.Status), MaskResult(s, d.Result)
	if d.Rest != nil {
		d.Rest = new(MaskContent(s, *d.Rest))
	}
}

// MaskResult returns a result with its secrets masked.
func MaskResult(s *secrets.Set, result *mcp.CallToolResult) *mcp.CallToolResult {
	if s == nil || result == nil {
		return result
	}
	masked := *result
	masked.Content = MaskContent(s, result.Content)
	masked.StructuredContent, masked.Others = s.JSON(result.StructuredContent), s.JSON(result.Others)
	if meta := rawjson.Encode(result.Meta); !bytes.Equal(s.JSON(meta), meta) {
		var raw map[string]json.RawMessage
		_ = json.Unmarshal(s.JSON(meta), &raw) // an object stays an object
		masked.Meta = mcp.RawMeta(raw)
	}
	return &masked
}

// MaskContent returns content with its secrets masked. Neighbouring texts between which a secret is divided
// become one text: a reader takes them together, as the log does.
func MaskContent(s *secrets.Set, content []mcp.ContentBlock) []mcp.ContentBlock {
	if s == nil {
		return content
	}
	masked := make([]mcp.ContentBlock, 0, len(content))
	var texts []string // of the items that masked ends with
	join := func() {
		if len(texts) > 1 {
			whole := strings.Join(texts, "")
			if clean := s.String(whole); clean != whole {
				masked = append(masked[:len(masked)-len(texts)], mcp.Text(clean))
			}
		}
		texts = texts[:0]
	}
	for _, item := range content {
		item = s.JSON(item)
		text, isText := mcp.TextOf(item)
		isText = isText && !mcp.IsEnd(item)
		if !isText {
			join()
		}
		masked = append(masked, item)
		if isText {
			texts = append(texts, text)
		}
	}
	join()
	return masked
}

// HideError returns an error with its secrets masked.
func HideError(s *secrets.Set, e *rpc.Error) *rpc.Error {
	if s == nil || e == nil {
		return e
	}
	masked := *e
	masked.Message = s.String(e.Message)
	if e.Data != nil {
		masked.Data = s.JSON(rawjson.Encode(e.Data))
	}
	return &masked
}
