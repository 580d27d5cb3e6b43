package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// maxWait is how long get_task_result waits at the most: below the 60 s after which most hosts give up.
const maxWait = 45 * time.Second

// addFallbackTools adds the tools by which a model uses tasks through a host that has none. A tool of
// the user's with the same name stays.
func (s *service) addFallbackTools() {
	if s.o.FallbackTools == "never" {
		return
	}
	taskID := `"task_id":{"type":"string","description":"the task's id"}`
	for _, t := range []fallbackTool{
		{"start_task", "Start a tool as a background task and return at once with its task id. For work that takes minutes.",
			`{"tool":{"type":"string","description":"the name of the tool"},"arguments":{"type":"object","description":"the arguments of the tool"}}`, "tool", s.startTask},
		{"get_task_result", "Get the new output of a task, and its result when it has ended. Waits up to wait_ms for the end: use a long wait, not many calls.",
			`{` + taskID + `,"wait_ms":{"type":"integer","minimum":0,"description":"how long to wait for the task to end, in milliseconds, 45000 at most; default 0"},` +
				`"after":{"type":"integer","minimum":0,"description":"the position to read output from: next of the call before; default 0"}}`, "task_id", s.getTaskResult},
		{"list_tasks", "List the background tasks and their status.",
			`{"cursor":{"type":"string","description":"nextCursor of the page before"}}`, "", s.listTasks},
		{"cancel_task", "Stop a background task.", `{` + taskID + `}`, "task_id", s.cancelTask},
	} {
		if err := s.registry.addFallback(&t, s.fallbackHidden); err != nil {
			s.o.Log.Warn().Err(err).Msg("a fallback tool is left out")
		}
	}
}

// fallbackHidden reports whether a client's list leaves out the fallback tools, since it can do tasks.
func (s *service) fallbackHidden(c *rpc.Caller) bool {
	return s.o.FallbackTools != "always" && tasks.CanUse(c)
}

// fallbackListed reports whether the fallback tools are listed for a client, so that its model can be told to call them.
func (s *service) fallbackListed(c *rpc.Caller) bool {
	if s.o.FallbackTools == "never" || s.fallbackHidden(c) {
		return false
	}
	e := s.registry.lookup("get_task_result") // a tool of the user's may have its name
	if e == nil {
		return false
	}
	_, ours := e.tool.(*fallbackTool)
	return ours
}

// canGoOn reports whether a client that is answered with a task in the place of its result finds the rest: by the fallback tools,
// or by the tasks methods. Who has closed the input can ask for nothing more.
func (s *service) canGoOn(c *rpc.Caller) bool {
	return c.Listens() && (s.fallbackListed(c) || tasks.CanUse(c))
}

type fallbackSeenKey struct{}

// fallbackSeen happens when a session's list shows the fallback tools.
func fallbackSeen(c *rpc.Caller) *rpc.Event {
	return c.SessionValue(fallbackSeenKey{}, func() any { return &rpc.Event{} }).(*rpc.Event)
}

// fallbackTool is one of the tools that use tasks.
type fallbackTool struct {
	name, description, properties, required string

	call func(ctx context.Context, in *Call) (*mcp.CallToolResult, error)
}

func (t *fallbackTool) Describe() mcp.Tool {
	required := ""
	if t.required != "" {
		required = fmt.Sprintf(`,"required":[%q]`, t.required)
	}
	return mcp.Tool{
		Name:        t.name,
		Description: t.description,
		InputSchema: fmt.Appendf(nil, `{"type":"object","properties":%s%s,"additionalProperties":false}`, t.properties, required),
		Execution:   &mcp.ToolExecution{TaskSupport: mcp.TaskForbidden},
	}
}

func (t *fallbackTool) Call(ctx context.Context, in *Call, _ *Output) (*mcp.CallToolResult, error) {
	result, err := t.call(ctx, in)
	if wire, ok := errors.AsType[*rpc.Error](err); ok {
		err = errors.New(wire.Message) // a model reads tool errors, and may mend them
	}
	return result, err
}

// said is a result that says the same as text and as structured content.
func said(text string, v any) *mcp.CallToolResult {
	r := mcp.Result(text)
	r.StructuredContent = encode(v)
	return r
}

func (s *service) startTask(ctx context.Context, in *Call) (*mcp.CallToolResult, error) {
	var p struct {
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(in.Arguments, &p); err != nil {
		return nil, err
	}
	e := s.lookup(ctx, p.Tool)
	if e == nil {
		return nil, fmt.Errorf("unknown tool: %q", p.Tool)
	}
	if e.taskSupport() == mcp.TaskForbidden {
		return nil, fmt.Errorf("tool %q cannot run as a task: call it directly", p.Tool)
	}
	if len(p.Arguments) == 0 {
		p.Arguments = json.RawMessage("{}")
	}
	d := deliverResult(in.caller)
	run, err := s.start(ctx, e, p.Arguments, d, tasks.Spec{Handle: true})
	if err != nil {
		return nil, err
	}
	d.start()
	return said(fmt.Sprintf("Started as task %s. get_task_result tells how it goes.", run.ID()),
		taskProgress{TaskID: run.ID(), Status: mcp.TaskWorking}), nil
}

// errNoTask is a task id that is unknown, expired or somebody else's.
func errNoTask(id string) error { return fmt.Errorf("task %q is unknown or has expired", id) }

// maxShown is how much of a task's result get_task_result shows beside its output, in bytes of JSON.
const maxShown = 480 << 10

func (s *service) getTaskResult(ctx context.Context, in *Call) (*mcp.CallToolResult, error) {
	var p struct {
		TaskID string  `json:"task_id"`
		WaitMs float64 `json:"wait_ms"` // an integer by the schema, which has 1.0 and 1e3, too
		After  float64 `json:"after"`
	}
	if err := json.Unmarshal(in.Arguments, &p); err != nil {
		return nil, err
	}
	t, err := s.awaitTask(ctx, p.TaskID, time.Duration(min(p.WaitMs, float64(maxWait.Milliseconds())))*time.Millisecond)
	if errors.Is(err, tasks.ErrNotFound) {
		return nil, errNoTask(p.TaskID)
	} else if err != nil {
		return nil, err
	}
	after := t.Log.Size() // no position is behind the end
	if p.After < float64(after) {
		after = int64(p.After)
	}
	output, next, err := readText(ctx, t.Log, after, maxPage)
	if err != nil {
		return nil, err
	}
	told := taskProgress{TaskID: t.ID, Status: t.Status, StatusMessage: t.StatusMessage, Next: &next, Output: &output}
	text := fmt.Sprintf("Task %s: %s", t.ID, t.Status)
	if !t.Status.Terminal() {
		return withVariables(said(fmt.Sprintf("%s\nGo on with after: %d.\n%s", text, next, output), told), &t), nil
	}
	s.runner.TellRetrieved(t.ID)
	if t.Outcome.Err != nil {
		told.Result = mcp.ErrorResult(t.Outcome.Err.Message)
	} else {
		told.Result = fitInto(t.Outcome.Result, maxShown)
	}
	result := resultText(fitInto(told.Result, maxShown/2)) // once more, as text
	if !strings.Contains(result, output) {
		result = output + "\nResult:\n" + result
	}
	return withVariables(said(text+because(t.StatusMessage, result)+"\n"+result, told), &t), nil
}

// awaitTask returns a task when it has ended, or as it is after a time.
func (s *service) awaitTask(ctx context.Context, id string, limit time.Duration) (tasks.Task, error) {
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t, err := s.runner.Await(wait, id)
	if err != nil && wait.Err() != nil && ctx.Err() == nil {
		return s.runner.Get(ctx, id)
	}
	return t, err
}

// because is what the status message says beside the text of the result. A command's ends with the last lines of its output, which
// the model would pay for twice.
func because(message, result string) string {
	if message == "" {
		return ""
	}
	if verdict, last, _ := strings.Cut(message, "\n"); strings.Contains(result, last) {
		message = verdict
	}
	return ": " + message
}

func withVariables(r *mcp.CallToolResult, t *tasks.Task) *mcp.CallToolResult {
	r.Meta = tasks.WithVariables(r.Meta, t, r.Size())
	return r
}

// resultText is the text of a result, with other content named.
func resultText(r *mcp.CallToolResult) string {
	var b strings.Builder
	for _, c := range r.Content {
		if text, ok := mcp.TextOf(c); ok {
			b.WriteString(text)
		} else {
			fmt.Fprintf(&b, "[%s]\n", mcp.ContentType(c))
		}
	}
	return b.String()
}

// listPageTasks is how many tasks list_tasks shows at once.
const listPageTasks = 50

func (s *service) listTasks(ctx context.Context, in *Call) (*mcp.CallToolResult, error) {
	var p struct {
		Cursor string `json:"cursor"`
	}
	if err := json.Unmarshal(in.Arguments, &p); err != nil {
		return nil, err
	}
	page, next, err := s.runner.List(ctx, p.Cursor, listPageTasks)
	if err != nil {
		return nil, err
	}
	type listed struct {
		TaskID        string         `json:"taskId"`
		Tool          string         `json:"tool"`
		Status        mcp.TaskStatus `json:"status"`
		StatusMessage string         `json:"statusMessage,omitempty"`
		CreatedAt     time.Time      `json:"createdAt"`
	}
	list := make([]listed, len(page))
	var text strings.Builder
	for i, t := range page {
		list[i] = listed{t.ID, t.Tool, t.Status, t.StatusMessage, t.CreatedAt.UTC()}
		fmt.Fprintf(&text, "%s %s: %s\n", t.ID, t.Tool, t.Status)
	}
	if len(page) == 0 {
		text.WriteString("No tasks.\n")
	}
	return said(text.String(), struct {
		Tasks      []listed `json:"tasks"`
		NextCursor string   `json:"nextCursor,omitempty"`
	}{list, next}), nil
}

func (s *service) cancelTask(ctx context.Context, in *Call) (*mcp.CallToolResult, error) {
	var p struct {
		TaskID string `json:"task_id"`
	}
	if err := json.Unmarshal(in.Arguments, &p); err != nil {
		return nil, err
	}
	t, err := s.runner.Cancel(ctx, p.TaskID)
	switch {
	case errors.Is(err, tasks.ErrNotFound):
		return nil, errNoTask(p.TaskID)
	case errors.Is(err, tasks.ErrEnded):
		return nil, fmt.Errorf("task %s has ended already: %s", t.ID, t.Status)
	case err != nil:
		return nil, err
	}
	return said(fmt.Sprintf("Task %s: %s", t.ID, t.Status), taskProgress{TaskID: t.ID, Status: t.Status}), nil
}
