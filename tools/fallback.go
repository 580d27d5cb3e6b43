package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/feed"
	"runnel/tasks/methods"
	"runnel/tasks/run"
	"runnel/tools/reading"
)

// taskMeta is what results about a task tell programs, in _meta.
type taskMeta struct {
	TaskID string         `json:"taskId"`
	Status mcp.TaskStatus `json:"status"`
	Next   int64          `json:"next"` // position in the log after the part that was shown
}

// fallbackParams are the arguments of all fallback tools. Numbers are floats, because 1.0 and 1e3 are
// integers for the schema.
type fallbackParams struct {
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

// aboutTask makes a result about a task.
func aboutTask(text string, task taskMeta) *mcp.CallToolResult {
	r := mcp.Result(text)
	r.Meta = map[string]any{mcp.MetaTask: task}
	return r
}

// errNoTask refuses a task id that is unknown, expired or of another owner.
func errNoTask(id string) error { return fmt.Errorf("task %q is unknown or has expired", id) }

// fallbackTools returns the tools by which a model uses tasks through a host that has none. If another tool
// has the name of one, their names begin with fallbackPrefix.
func (s *service) fallbackTools() []*entry {
	if s.o.FallbackTools == "never" {
		return nil
	}
	const taskID = `"task_id":{"type":"string"}`
	const until = `"until":{"type":"string","description":"answer as soon as a new line matches this regular expression (RE2), or at the end"}`
	return []*entry{
		fallback("start_task", "Start a tool as a background task and return at once with its task id. For work that takes minutes.",
			`"tool":{"type":"string","description":"the name of the tool"},"arguments":{"type":"object","description":"the arguments of the tool"},`+
				until+`,"wait_ms":{"type":"integer","minimum":0,"description":"how long to wait for until or the end, in milliseconds, 45000 at most; 20000 with until, else 0"}`, `"tool"`, true, s.startTask),
		fallback("get_task_result", "Get the new output of a task, and how it ended. Waits for the end, up to wait_ms. What was shown before is not shown again.",
			taskID+`,"wait_ms":{"type":"integer","minimum":0,"default":20000,"description":"how long to wait for the end, in milliseconds, 45000 at most"},`+until+`,`+
				`"after":{"type":"integer","minimum":0,"description":"read from this position of the output instead; 0 = from the beginning"},`+
				`"tail":{"type":"integer","minimum":1,"description":"only the last lines of the output, so many"},`+
				`"grep":{"type":"string","description":"only the lines of the output that match this regular expression (RE2)"},`+
				`"context":{"type":"integer","minimum":0,"description":"lines around each match"}`,
			`"task_id"`, false, s.getTaskResult),
		fallback("list_tasks", "List the background tasks, the newest first: id, tool, status, age, last line of output.",
			`"all":{"type":"boolean","default":false,"description":"also the tasks of other sessions"},"cursor":{"type":"string","description":"from where the page before ended"}`, "", true, s.listTasks),
		fallback(sendToTask, "Type into a running task: a terminal or a program that reads stdin. Answers with the new output once it has been quiet for a moment; without input, it only looks.",
			taskID+`,"text":{"type":"string","description":"what to type, as it is: end it with a newline to press Enter"},`+
				`"keys":{"type":"array","items":{"type":"string"},"description":"keys to press after the text: Enter, Tab, Escape, Up, C-c, M-x, F1, PageDown, ..."},`+
				`"eof":{"type":"boolean","default":false,"description":"the input ends here: stdin is closed, a terminal gets C-d"},`+
				`"screen":{"type":"boolean","default":false,"description":"answer with the whole screen of a terminal and the place of the cursor, not with the lines that have changed"},`+
				`"wait_ms":{"type":"integer","minimum":0,"default":5000,"description":"how long to wait for output and for its end, in milliseconds, 45000 at most"}`,
			`"task_id"`, false, s.sendToTask),
		fallback("cancel_task", "Stop a background task.", taskID, `"task_id"`, false, s.cancelTask),
	}
}

// fallback makes one of these tools. shown: clients that show apps show the page beside its calls.
func fallback(name, description, properties, required string, shown bool,
	call func(ctx context.Context, in *Call, p *fallbackParams) (*mcp.CallToolResult, error)) *entry {
	e := newOwnEntry(FuncWith(mcp.Tool{
		Name:        name,
		Description: description,
		InputSchema: ObjectSchema(properties, required),
		Execution:   &mcp.ToolExecution{TaskSupport: mcp.TaskForbidden},
	}, func(ctx context.Context, in *Call, p fallbackParams, _ *Output) (*mcp.CallToolResult, error) {
		result, err := call(ctx, in, &p)
		if wire, ok := errors.AsType[*rpc.Error](err); ok {
			err = errors.New(wire.Message) // a model reads tool errors, and may correct its mistake
		}
		return result, err
	}))
	e.extra, e.shown, e.types = true, shown, name == sendToTask
	e.named = name == "get_task_result" || name == "cancel_task" || name == sendToTask
	return e
}

type fallbackSeenKey struct{}

// fallbackSeen is what a session knows of the fallback tools.
type fallbackSeen struct {
	sync.Once // done once its list has shown them

	// session gets the notifications. The caller of the list is another: its sessionId and stream end with the request.
	session *rpc.Caller
}

// seenBy returns what the session of c knows. The first call, from OnSession, has the session's own caller.
func seenBy(c *rpc.Caller) *fallbackSeen {
	return c.SessionValue(fallbackSeenKey{}, func() any { return &fallbackSeen{session: c} }).(*fallbackSeen)
}

func (s *service) startTask(ctx context.Context, in *Call, p *fallbackParams) (*mcp.CallToolResult, error) {
	if p.Until != "" { // nothing starts with a wrong one
		if _, err := reading.NewUntil(p.Until); err != nil {
			return nil, err
		}
	}
	run, err := in.Start(ctx, p.Tool, p.Arguments)
	if err != nil {
		return nil, err
	}
	if p.Until != "" || p.wait(0) > 0 {
		p.TaskID = run.ID()
		result, err := s.getTaskResult(ctx, in, p)
		if err != nil { // the task runs all the same
			return nil, fmt.Errorf("%s runs as task %s, but: %w", p.Tool, run.ID(), err)
		}
		result.Content = slices.Insert(result.Content, 0,
			mcp.Text(fmt.Sprintf("%s is task %s.\n", p.Tool, run.ID())))
		return result, nil
	}
	return aboutTask(fmt.Sprintf("%s runs as task %s. Call %s with {\"task_id\": %q} to wait for its output and its result; %s stops it.",
		p.Tool, run.ID(), s.registry.fallbackName("get_task_result"), run.ID(),
		s.registry.fallbackName("cancel_task")), taskMeta{TaskID: run.ID(), Status: mcp.TaskWorking}), nil
}

// startFor starts a tool as a task for a client.
func (s *service) startFor(ctx context.Context, c *rpc.Caller, tool string,
	arguments json.RawMessage) (*run.Run, error) {
	e := s.lookup(ctx, c, tool)
	if e == nil {
		return nil, fmt.Errorf("unknown tool: %q", tool)
	}
	if e.taskSupport() == mcp.TaskForbidden {
		return nil, fmt.Errorf("tool %q cannot run as a task: call it directly", tool)
	}
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	if _, err := e.fit(arguments, s.runner.Secrets()); err != nil {
		return nil, fmt.Errorf("%w; %s has not been started", err, tool)
	}
	d := s.deliver(c, false, feed.ByResult)
	d.audience.left.Store(true)
	run, err := s.start(ctx, e, arguments, d, run.Spec{Handle: true})
	if err != nil {
		return nil, err
	}
	d.Start()
	return run, nil
}

func (s *service) cancelTask(ctx context.Context, in *Call, p *fallbackParams) (*mcp.CallToolResult, error) {
	t, err := s.runner.Cancel(ctx, p.TaskID)
	switch {
	case errors.Is(err, tasks.ErrNotFound):
		return nil, errNoTask(p.TaskID)
	case errors.Is(err, tasks.ErrEnded):
		return nil, fmt.Errorf("task %s has ended already: %s", t.ID, t.Status)
	case err != nil:
		return nil, err
	}
	return aboutTask(fmt.Sprintf("Task %s: %s", t.ID, t.Status),
		taskMeta{TaskID: t.ID, Status: t.Status, Next: reading.Of(in.caller).Place(t.ID).Next}), nil
}

// fallbackHidden reports whether a client's list leaves out the fallback tools, because it can use tasks.
func (s *service) fallbackHidden(c *rpc.Caller) bool {
	return s.o.FallbackTools != "always" && methods.CanUse(c)
}
