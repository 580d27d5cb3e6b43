package tasks

import (
	"errors"
	"fmt"
	"runtime/debug"

	"runnel/rpc"
	"runnel/rpc/mcp"
)

// do does the work, and returns when the run has ended.
func (r *Run) do() {
	rpc.GrowStack()
	defer r.done()
	if done := r.work(); r.detached.IsSet() { // the work was to hand the task over
		r.follow()
	} else {
		r.finishAs(done)
	}
}

// finishAs ends the run as its work says, unless it was cut off. What comes after the tool stands in functions of its own, here and in
// package tools, and what the work has come to is passed as a pointer, so that neither takes stack while the tool runs: a thousand stacks
// shrink to 4 KiB only with less than 1.2 KiB in use.
func (r *Run) finishAs(done *Done) {
	var wire *rpc.Error
	if done.Err != nil {
		wire = HideError(r.secrets, r.wireError(done.Err))
	}
	done.hide(r.secrets)
	if why := r.cut(); why != nil { // then the task does not end as the work says
		done, wire = &Done{Result: mcp.ErrorResult(why.Error())}, nil
	}
	r.setEnding(done.Result, done.Rest, wire)
	r.awaitDelivery()
	switch why := r.cut(); {
	case why != nil:
		r.cutOff(why)
	case wire != nil:
		r.finish(nil, mcp.TaskFailed, wire.Message, &Outcome{Err: wire})
	case done.Result.IsError && !r.completes():
		// "when the tool result has isError set to true, the task should reach failed status" (tasks, "Task Execution Errors")
		r.finish(nil, mcp.TaskFailed, done.Status, &Outcome{Result: done.Result})
	default:
		r.finish(nil, mcp.TaskCompleted, done.Status, &Outcome{Result: done.Result})
	}
}

// done lets Runner.Close wait for the run no longer.
func (r *Run) done() {
	if r.HasHandle() { // a lock that small calls do not share
		r.runner.mu.Lock()
		delete(r.runner.working, r)
		r.runner.mu.Unlock()
	}
	r.runner.all.Done()
}

// work calls the tool and makes an error of its panic.
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

// wireError is the JSON-RPC error that a work's error is; the text of any other stays in the log.
func (r *Run) wireError(err error) *rpc.Error {
	wire, ok := errors.AsType[*rpc.Error](err)
	if !ok {
		r.runner.o.Log.Error().Err(err).Str("taskId", r.id).Str("owner", r.runner.o.Owner).Str("tool", r.spec.Tool).Msg("tool failed")
		wire = rpc.Errorf(mcp.CodeInternalError, "internal error")
	}
	return wire
}
