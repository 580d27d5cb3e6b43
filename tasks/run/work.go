package run

import (
	"errors"
	"fmt"
	"runtime/debug"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// do runs the work, and returns when the run has ended.
func (r *Run) do() {
	rpc.GrowStack()
	defer r.done()
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
	done.hide(r.secrets)
	if why := r.abortReason(); why != nil { // then the result of the work does not count
		done, wire = &Done{Result: mcp.ErrorResult(why.Error())}, nil
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

// done lets Runner.Close no longer wait for the run.
func (r *Run) done() {
	if r.kept == handle { // short calls do not contend for this lock; kept does not change after the end
		r.runner.mu.Lock()
		delete(r.runner.working, r)
		r.runner.mu.Unlock()
	}
	r.runner.all.Done()
}

// work calls the tool and turns its panic into an error.
func (r *Run) work() (done *Done) {
	done = &Done{}
	defer func() {
		if p := recover(); p != nil {
			r.runner.o.Log.Error().Str("taskId", r.ID()).Str("owner", r.runner.o.Owner).Str("tool", r.spec.Tool).
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
		r.runner.o.Log.Error().Err(err).Str("taskId", r.id).Str("owner", r.runner.o.Owner).Str("tool", r.spec.Tool).Msg("tool failed")
		wire = rpc.Errorf(mcp.CodeInternalError, "internal error")
	}
	return wire
}
