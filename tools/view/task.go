package view

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"runnel/internal/shorten"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tools"
	"runnel/tools/terminal"
	"runnel/tools/text"
)

// view answers the calls of the page.
type view struct {
	runner  *run.Runner
	hosts   func() Hosts
	screens terminal.Screens
}

// shownTask describes a task to the page. Unknown members are omitted.
type shownTask struct {
	TaskID        string          `json:"taskId"`
	Tool          string          `json:"tool"`
	Title         string          `json:"title,omitempty"`
	Arguments     json.RawMessage `json:"arguments,omitempty"`
	Status        mcp.TaskStatus  `json:"status"`
	StatusMessage string          `json:"statusMessage,omitempty"`
	Answered      bool            `json:"answered,omitempty"` // its questions, but it does not go on yet
	CreatedAt     time.Time       `json:"createdAt"`
	EndedAt       *time.Time      `json:"endedAt,omitempty"`
	DurationMs    int64           `json:"durationMs"`
	Progress      *progress       `json:"progress,omitempty"`
	Bytes         int64           `json:"bytes"` // of output so far
	LastLine      string          `json:"lastLine,omitempty"`
	Matches       string          `json:"matches,omitempty"` // what it has found in its output, while it runs
	Result        string          `json:"result,omitempty"`  // its text if there is no output; in view_output
	Mine          bool            `json:"mine"`              // this process has made it
	CanCancel     bool            `json:"canCancel"`
	CanRunAgain   bool            `json:"canRunAgain"`
	Host          string          `json:"host,omitempty"`  // whose call it is
	Where         string          `json:"where,omitempty"` // the host of the worker that runs it
}

type progress struct {
	Progress float64 `json:"progress"`
	Total    float64 `json:"total,omitempty"`
	Message  string  `json:"message,omitempty"`
}

// maxLastLine is how much of the last line is shown, in bytes.
const maxLastLine = 500

// maxShownResult is how much of a result is shown, in bytes.
const maxShownResult = 64 << 10

// result returns the text of a task's result if it has no output: tools of another server often write none.
func (v *view) result(ctx context.Context, t *tasks.Task) string {
	if t.Log.Size() > 0 || t.Status != mcp.TaskCompleted {
		return ""
	}
	whole, err := v.runner.Get(ctx, t.ID)
	if err != nil || whole.Outcome == nil || whole.Outcome.Result == nil { // the task is shown without it
		return ""
	}
	var said []string
	for _, item := range whole.Outcome.Result.Content {
		words, isText := mcp.TextOf(item)
		if !isText {
			words = "[" + rawjson.StringMember(item, "type") + "]"
		}
		said = append(said, words)
	}
	return text.Short(strings.Join(said, "\n"), maxShownResult)
}

// show describes a task as it is now. own reports whether this process has made a task.
func (v *view) show(ctx context.Context, in *tools.Call, t *tasks.Task, own func(id string) bool) shownTask {
	title, startable := in.Startable(t.Tool)
	s := shownTask{
		TaskID: t.ID, Tool: t.Tool, Title: title, Arguments: t.Arguments,
		Status: t.Status, StatusMessage: t.StatusMessage, CreatedAt: t.CreatedAt.UTC(),
		DurationMs: duration(t).Milliseconds(),
		Bytes:      t.Log.Size(), LastLine: shorten.Clip(t.LastLine(ctx), maxLastLine), Mine: own(t.ID),
		CanCancel: !t.Status.Terminal(), CanRunAgain: startable && t.Arguments != nil, Where: t.Worker,
		Host: t.Client,
	}
	if t.Status.Terminal() {
		ended := t.UpdatedAt.UTC()
		s.EndedAt = &ended
		return s
	}
	if s.Answered = t.Status == mcp.TaskInputRequired && tasks.Answered(t.Variables); s.Answered {
		s.StatusMessage = tasks.WaitsFor(t)
	}
	s.Matches = shorten.Clip(t.Matches.Message(), maxLastLine)
	if p := t.Progress; p != (tasks.Progress{}) {
		s.Progress = &progress{p.Done, p.Total, p.Message}
	}
	return s
}

// duration returns how long a task took, or has taken so far.
func duration(t *tasks.Task) time.Duration {
	if t.Status.Terminal() {
		return t.UpdatedAt.Sub(t.CreatedAt)
	}
	return time.Since(t.CreatedAt)
}

type taskParams struct {
	TaskID string `json:"taskId"`
}

// task implements view_task.
func (v *view) task(ctx context.Context, in *tools.Call, p taskParams) (any, error) {
	t, err := v.runner.Head(ctx, p.TaskID)
	if err != nil {
		return nil, err
	}
	return v.show(ctx, in, &t, v.runner.Own()), nil
}

// times implements view_times.
func (v *view) times(ctx context.Context, _ *tools.Call, p taskParams) (any, error) {
	t, err := v.runner.Head(ctx, p.TaskID)
	if err != nil {
		return nil, err
	}
	pairs := [][2]int64{}
	for _, s := range t.Times {
		pairs = append(pairs, [2]int64{s.At.Milliseconds(), s.Bytes})
	}
	return map[string][][2]int64{"times": pairs}, nil
}
