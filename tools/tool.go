package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools/secrets"
	"runnel/tools/text"
)

// Tool is something a client can call.
type Tool interface {
	// Describe returns what tools/list shows. It is called once, when the tool is added to a Registry.
	Describe() mcp.Tool

	// Call runs the tool until it is done or ctx ends, and writes to out while it runs.
	//
	// An error of type *rpc.Error is sent as a JSON-RPC error. Any other error becomes a tool error:
	// a result with isError and the error's text, for the model to read (tools, "Error Handling").
	Call(ctx context.Context, in *Call, out *Output) (*mcp.CallToolResult, error)
}

// Kind is a Tool that says of itself what the server needs to know and no client sees.
type Kind interface {
	Tool

	// Traits is called once, when the tool is added to a Registry.
	Traits() Traits

	// Replace is called before the tool takes the place of the one that had its name, whose calls go on.
	Replace(before Tool)
}

// Traits are what a Kind says of itself. A Tool that is not a Kind has the zero value.
type Traits struct {
	Grace    time.Duration // how long a call may take to end when it is stopped
	Detached bool          // a call runs in another process, and outlives this one
	Confirms bool          // a call may have to wait for its user before it starts
	Bounded  bool          // a call ends soon: it is never handed over

	// How a call's output is shown that has not ended: see text.Shaper.
	MaxResult  int // bytes; 0 = ServeOptions.MaxResult
	KeepFrames bool
}

// Call is one call of a tool.
type Call struct {
	// Arguments is a JSON object that is valid by the tool's input schema. Defaults are not filled in.
	Arguments json.RawMessage

	// TaskID names the task that this call runs as.
	TaskID string

	// Confirmed: the user has confirmed the call, where it was made.
	Confirmed bool

	// Said is what the tool says of its result, beside the result itself.
	Said Said

	// nil in a test
	run      *tasks.Run
	caller   *rpc.Caller
	audience *audience
	service  *service
}

// Caller is the client that made the call, nil in a test.
func (c *Call) Caller() *rpc.Caller { return c.caller }

// Said is what a tool says of its result.
type Said struct {
	// Status is the statusMessage that the task ends with, 2 KiB at most; hosts that see a task fail often read nothing else.
	// Without it a failed task shows the beginning of its result's text.
	Status string

	// Truncated: the result does not show all of the output. It gets a link to the task's log.
	Truncated bool

	// Rest are, if it is not nil, the only items of the result that do not repeat what was written to the Output. A client that was sent
	// the output as it came gets them after it, and nothing twice.
	Rest *[]mcp.ContentBlock
}

// LeftOut are the words for what the call's result leaves out. They make its log readable first.
func (c *Call) LeftOut(ctx context.Context) func(text.Gap) string {
	return func(g text.Gap) string {
		if !c.keep(ctx) {
			return text.LeftOut(g)
		}
		return leftOut(c.polls(), c.TaskID)(g)
	}
}

// leftOut are the words for what is left out of a task's output: how much, and how to read it. polls reports whether
// get_task_result is listed for their reader.
func leftOut(polls bool, taskID string) func(text.Gap) string {
	return func(g text.Gap) string {
		how := ""
		if polls {
			how = fmt.Sprintf("call get_task_result with {\"task_id\": %q, \"after\": %d} (tail and grep pick lines), or ", taskID, g.After)
		}
		return fmt.Sprintf("[... %d bytes left out: %sread %s?after=%d ...]", g.Bytes, how, tasks.LogURI(taskID), g.After)
	}
}

// polls reports whether get_task_result is listed for the client.
func (c *Call) polls() bool {
	return c.service.polls || c.caller != nil && c.service.fallbackListed(c.caller)
}

// keep makes the call's log readable when the call has ended, and reports whether it is.
func (c *Call) keep(ctx context.Context) bool {
	return c.run != nil && c.run.Keep(context.WithoutCancel(ctx)) == nil
}

// Variables are the variables of the call's task, a JSON object.
func (c *Call) Variables() json.RawMessage {
	if c.run != nil {
		if own := tasks.OwnVariables(c.run.Task().Variables); own != nil {
			return own
		}
	}
	return json.RawMessage("{}")
}

// SetVariables merges an object into the variables of the call's task; null deletes a key. It returns them all. It fails like
// [tasks.Run.SetVariables].
func (c *Call) SetVariables(ctx context.Context, patch json.RawMessage) (json.RawMessage, error) {
	if c.run == nil {
		return patch, nil
	}
	return c.run.SetVariables(ctx, patch)
}

// Question is what a tool asks the user of the client.
type Question struct {
	Message string
	// Schema of the answer's content: a JSON Schema object with properties of primitive types
	// (2025-06-18 client/elicitation, "Requested Schema").
	Schema json.RawMessage
}

// Answer is what the user did with a question.
type Answer struct {
	Action  mcp.ElicitAction
	Content json.RawMessage // with mcp.ElicitAccept: what the schema asked for
}

// ErrCannotAsk is what Ask returns when the client has no way to ask its user.
var ErrCannotAsk = errors.New("this client cannot ask its user: it does not support elicitation")

// Detached is a call that goes on in another process, its supervisor or a worker.
type Detached struct {
	TaskID    string
	Host      string          // of a worker
	Confirmed bool            // the user has confirmed it
	Tool      json.RawMessage // makes the tool anew there
	Arguments json.RawMessage
	Polls     bool            // get_task_result is listed for the client
	Client    tasks.FarClient // what a worker can ask it
	Secrets   *secrets.Set    // what it must not show; nil = nothing. A worker has its own
}
