package remote

import (
	"context"
	"encoding/json"

	"github.com/rs/zerolog"

	"runnel/partials/tracker"
	"runnel/rpc"
	"runnel/rpc/mcp"
)

// Options receive the events of a call. All functions except Request are called where an event comes: on the
// goroutine that reads the connection, on Run's and on those beside it. Content and Gap are called one at a
// time, in order. None may wait for the server.
type Options struct {
	Token json.RawMessage // for the call's progress and partials; unique on the connection

	Whole    bool // the result must be complete: no partials that it would then leave out (PR #383)
	NoErrors bool // see tracker.Options

	Content func(items []json.RawMessage, replaces bool) // see tracker.Options
	Gap     func(tracker.Gap)                            // likewise
	Task    func(id string)                              // called if the call has become a task; may be nil
	// Called with the status messages of a working task; nil = not called.
	Status func(message string)
	// Request answers a request of a server of the stateless era: elicitation/create and, with Others, any
	// other, such as sampling/createMessage. If the question came as the answer to the call, an error fails
	// the call; an error for a task's question cancels the question.
	Request func(ctx context.Context, method string, params json.RawMessage) (any, error)
	Others  bool
	Log     zerolog.Logger
}

// Params are the tool to call, and how.
type Params struct {
	Tool      string
	Arguments json.RawMessage // an object
	// Task augments the call with a task (2025-11-25 only); nil = a plain call, which in the stateless era
	// the server may make a task.
	Task *mcp.TaskMetadata
	// In the stateless era: the client's capabilities for this call, nil = those of the connection; and the
	// lowest level of log lines that the server may send with it, "" = none.
	Capabilities any
	LogLevel     string
	// Base are the params of another request for the same, whose members are sent, too; nil = none. Arguments
	// then stands in it.
	Base json.RawMessage
}

// Capabilities returns the capabilities of a client that uses Call. asks: it answers questions.
func Capabilities(asks bool) mcp.ClientCapabilities {
	c := mcp.ClientCapabilities{
		Tasks: &mcp.ClientTasks{
			Streaming: &mcp.TaskStreaming{Partial: &mcp.Present{}},
			Responses: &mcp.TaskResponses{Modes: []mcp.ResponseMode{mcp.ModeImmediate, mcp.ModeStreaming,
				mcp.ModeTask}},
		},
		PartialResults: &mcp.Present{},
		Extensions:     map[string]any{mcp.ExtensionTasks: struct{}{}, mcp.ExtensionTaskPartials: struct{}{}},
	}
	if asks {
		c.Elicitation = &mcp.ElicitationCapability{}
	}
	return c
}

// TakesTask reports whether a client may augment calls of a tool with a task, which only 2025-11-25 has.
func TakesTask(client *rpc.Client, tool *mcp.Tool) bool {
	tasks := client.Capabilities().Tasks
	return client.Version().Tasks && tasks != nil && tasks.Requests != nil &&
		tool.Execution != nil && (tool.Execution.TaskSupport == mcp.TaskOptional ||
		tool.Execution.TaskSupport == mcp.TaskRequired)
}
