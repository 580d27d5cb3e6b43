package remote

import (
	"context"
	"encoding/json"

	"github.com/rs/zerolog"

	"runnel/partials/tracker"
	"runnel/rpc"
	"runnel/rpc/mcp"
)

// Options say who wants to hear what of a call. All functions but Request are called where something comes: on the goroutine that
// reads the connection, on Run's and on those beside it. Content and Gap are called one at a time, in order. None may wait for the server.
type Options struct {
	Token json.RawMessage // the call's, for its progress and its partials; one of its own on the connection

	Whole bool // the result is wanted whole: no partials that it then leaves out (PR #383)

	Content func(items []json.RawMessage, replaces bool) // see tracker.Options
	Gap     func(tracker.Gap)                            // likewise
	Status  func(message string)                         // called with what a task says while it works; nil = nobody wants it
	// Request answers a request of a server of the stateless era: elicitation/create, and with Others any other, such as
	// sampling/createMessage. An error of a call that was answered with the question is the call's; one of a task's question cancels the
	// question.
	Request func(ctx context.Context, method string, params json.RawMessage) (any, error)
	Others  bool
	Log     zerolog.Logger
}

// Params is what is called, and how.
type Params struct {
	Tool      string
	Arguments json.RawMessage // an object
	// Task augments the call with a task (2025-11-25 only); nil = it is made plainly, and in the stateless era the server decides.
	Task *mcp.TaskMetadata
	// In the stateless era: the capabilities of the client for this call, nil = those of the connection; and the level from
	// which on the server may send log lines with it, "" = it sends none.
	Capabilities *mcp.ClientCapabilities
	LogLevel     string
}

// Capabilities are those of a client that follows its calls with a Call. asks: it answers questions.
func Capabilities(asks bool) mcp.ClientCapabilities {
	c := mcp.ClientCapabilities{
		Tasks: &mcp.ClientTasks{
			Streaming: &mcp.TaskStreaming{Partial: &mcp.Present{}},
			Responses: &mcp.TaskResponses{Modes: []mcp.ResponseMode{mcp.ModeImmediate, mcp.ModeStreaming, mcp.ModeTask}},
		},
		PartialResults: &mcp.Present{},
		Extensions:     map[string]any{mcp.ExtensionTasks: struct{}{}, mcp.ExtensionTaskPartials: struct{}{}},
	}
	if asks {
		c.Elicitation = &mcp.ElicitationCapability{}
	}
	return c
}

// TakesTask reports whether a client may augment calls of a tool with a task, which is so in 2025-11-25 only.
func TakesTask(client *rpc.Client, tool *mcp.Tool) bool {
	tasks := client.Capabilities().Tasks
	return client.Version().Tasks && tasks != nil && tasks.Requests != nil &&
		tool.Execution != nil && (tool.Execution.TaskSupport == mcp.TaskOptional || tool.Execution.TaskSupport == mcp.TaskRequired)
}
