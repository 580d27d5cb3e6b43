package fallback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tools/reading"
)

// Tools are the tools by which a model uses the tasks of a runner.
type Tools struct {
	Runner *run.Runner
	Host   Host
}

// Host is what these tools need of the server that serves them.
type Host interface {
	// Name returns the name under which one of these tools is listed.
	Name(tool string) string
	// Start starts a tool as a task, for a client.
	Start(ctx context.Context, c *rpc.Caller, tool string, arguments json.RawMessage) (*run.Run, error)
	// Reader reads a task for the model of a client.
	Reader(c *rpc.Caller, t *tasks.Task) *reading.Reader
	// TakesInput reports whether calls of a tool read what is typed.
	TakesInput(tool string) bool
	// PasswordWords tells a model that a task asks for a password, and who types it; "" if it does not.
	PasswordWords(t *tasks.Task) string
	// AskPassword asks the user for the password that a task waits for. It reports whether that has taken
	// time.
	AskPassword(ctx context.Context, in *Call, v *run.View, t *tasks.Task) bool
}

// Tool is one of these tools, for tools/list and tools/call.
type Tool struct {
	Name, Description    string
	Properties, Required string // members of the input schema: of its properties, and what it requires
	Shown                bool   // clients that show apps show the page beside its calls
	Call                 func(ctx context.Context, in *Call, p *Params) (*mcp.CallToolResult, error)
}

// Call is one call of one of these tools.
type Call struct {
	Caller *rpc.Caller
	// Request asks the caller something.
	Request func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)

	// Passes is set by the tool: the result has items of a task's result, which pass as they do there.
	Passes bool
}

// SendToTask is the name of the tool that types.
const SendToTask = "send_to_task"

// Params are the arguments of all these tools. Numbers are floats, because 1.0 and 1e3 are integers for the
// schema.
type Params struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	TaskID    string          `json:"task_id"`
	WaitMs    *float64        `json:"wait_ms"`
	Cursor    string          `json:"cursor"`
	All       bool            `json:"all"`

	// Only send_to_task has these.
	Text string   `json:"text"`
	Keys []string `json:"keys"`
	EOF  bool     `json:"eof"`

	Screen bool `json:"screen"`

	// Only get_task_result has these.
	After   *float64 `json:"after"`
	Tail    float64  `json:"tail"`
	Grep    string   `json:"grep"`
	Until   string   `json:"until"` // also of start_task
	Context float64  `json:"context"`
}

// All returns the tools.
func (f *Tools) All() []Tool {
	const taskID = `"task_id":{"type":"string"}`
	const until = `"until":{"type":"string","description":"answer as soon as a new line matches this regular expression (RE2), or at the end"}`
	return []Tool{
		{"start_task", "Start a tool as a background task and return at once with its task id. For work " +
			"that takes minutes.",
			`"tool":{"type":"string","description":"the name of the tool"},"arguments":{"type":"object","description":"the arguments of the tool"},` +
				until + `,"wait_ms":{"type":"integer","minimum":0,"description":"how long to wait for until or the end, in milliseconds, 45000 at most; 20000 with until, else 0"}`, `"tool"`, true, f.startTask},
		{"get_task_result", "Get the new output of a task, and how it ended. Waits for the end, up to " +
			"wait_ms. What was shown before is not shown again.",
			taskID + `,"wait_ms":{"type":"integer","minimum":0,"default":20000,"description":"how long to wait for the end, in milliseconds, 45000 at most"},` + until + `,` +
				`"after":{"type":"integer","minimum":0,"description":"read from this position of the output instead; 0 = from the beginning"},` +
				`"tail":{"type":"integer","minimum":1,"description":"only the last lines of the output, so many"},` +
				`"grep":{"type":"string","description":"only the lines of the output that match this regular expression (RE2)"},` +
				`"context":{"type":"integer","minimum":0,"description":"lines around each match"}`,
			`"task_id"`, false, f.getTaskResult},
		{"list_tasks", "List the background tasks, the newest first: id, tool, status, age, last line of output.",
			`"all":{"type":"boolean","default":false,"description":"also the tasks of other sessions"},"cursor":{"type":"string","description":"from where the page before ended"}`, "", true, f.listTasks},
		{SendToTask, "Type into a running task: a terminal or a program that reads stdin. Answers with " +
			"the new output once it has been quiet for a moment; without input, it only looks.",
			taskID + `,"text":{"type":"string","description":"what to type, as it is: end it with a newline to press Enter"},` +
				`"keys":{"type":"array","items":{"type":"string"},"description":"keys to press after the text: Enter, Tab, Escape, Up, C-c, M-x, F1, PageDown, ..."},` +
				`"eof":{"type":"boolean","default":false,"description":"the input ends here: stdin is closed, a terminal gets C-d"},` +
				`"screen":{"type":"boolean","default":false,"description":"answer with the whole screen of a terminal and the place of the cursor, not with the lines that have changed"},` +
				`"wait_ms":{"type":"integer","minimum":0,"default":5000,"description":"how long to wait for output and for its end, in milliseconds, 45000 at most"}`,
			`"task_id"`, false, f.sendToTask},
		{"cancel_task", "Stop a background task.", taskID, `"task_id"`, false, f.cancelTask},
	}
}

// startTask starts a tool as a task, and waits for it if it is asked to.
func (f *Tools) startTask(ctx context.Context, in *Call, p *Params) (*mcp.CallToolResult, error) {
	if p.Until != "" { // nothing starts with a wrong one
		if _, err := reading.NewUntil(p.Until); err != nil {
			return nil, err
		}
	}
	run, err := f.Host.Start(ctx, in.Caller, p.Tool, p.Arguments)
	if err != nil {
		return nil, err
	}
	if p.Until != "" || p.wait(0) > 0 {
		p.TaskID = run.ID()
		result, err := f.getTaskResult(ctx, in, p)
		if err != nil { // the task runs all the same
			return nil, fmt.Errorf("%s runs as task %s, but: %w", p.Tool, run.ID(), err)
		}
		result.Content = slices.Insert(result.Content, 0,
			mcp.Text(fmt.Sprintf("%s is task %s.\n", p.Tool, run.ID())))
		return result, nil
	}
	return aboutTask(fmt.Sprintf("%s runs as task %s. Call %s with {\"task_id\": %q} to wait for its "+
		"output and its result; %s stops it.",
		p.Tool, run.ID(), f.Host.Name("get_task_result"), run.ID(),
		f.Host.Name("cancel_task")), reading.Meta{TaskID: run.ID(), Status: mcp.TaskWorking}), nil
}

// cancelTask cancels a task.
func (f *Tools) cancelTask(ctx context.Context, in *Call, p *Params) (*mcp.CallToolResult, error) {
	t, err := f.Runner.Cancel(ctx, p.TaskID)
	switch {
	case errors.Is(err, tasks.ErrNotFound):
		return nil, errNoTask(p.TaskID)
	case errors.Is(err, tasks.ErrEnded):
		return nil, fmt.Errorf("task %s has ended already: %s", t.ID, t.Status)
	case err != nil:
		return nil, err
	}
	return aboutTask(fmt.Sprintf("Task %s: %s", t.ID, t.Status),
		reading.Meta{TaskID: t.ID, Status: t.Status, Next: reading.Of(in.Caller).Place(t.ID).Next}), nil
}

// aboutTask makes a result about a task.
func aboutTask(text string, task reading.Meta) *mcp.CallToolResult {
	r := mcp.Result(text)
	r.Meta = map[string]any{mcp.MetaTask: task}
	return r
}

// errNoTask refuses a task id that is unknown, expired or of another owner.
func errNoTask(id string) error { return fmt.Errorf("task %q is unknown or has expired", id) }
