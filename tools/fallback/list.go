package fallback

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"runnel/internal/shorten"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools/reading"
	"runnel/tools/text"
)

const (
	// listPageTasks is how many tasks list_tasks shows at once.
	listPageTasks = 50
	// earlierPageTasks is that for tasks of earlier sessions, which a model may not have asked for.
	earlierPageTasks = 10
	// maxListedLine is how much it shows of a task's last line, in bytes.
	maxListedLine = 200
)

// listTasks lists tasks, newest first: those that this process has made or, if it has made none, others in
// its directory; or all of the owner's. A cursor is the id of the last one.
func (f *Tools) listTasks(ctx context.Context, _ *Call, p *Params) (*mcp.CallToolResult, error) {
	page, more, err := f.Runner.Newest(ctx, listPageTasks, p.Cursor, !p.All)
	var b strings.Builder
	// Its model may miss a call.
	if !p.All && len(page) == 0 && (err == nil || errors.Is(err, tasks.ErrCursor)) {
		if page, more, err = f.Runner.Earlier(ctx, earlierPageTasks, p.Cursor); len(page) > 0 {
			b.WriteString("No tasks of this session. Those of earlier sessions in this directory:\n")
		}
	}
	if errors.Is(err, tasks.ErrCursor) {
		return nil, errors.New("the cursor names no task: use the one of the page before, or none")
	} else if err != nil {
		return nil, err
	}
	type listed struct {
		TaskID        string         `json:"taskId"`
		Tool          string         `json:"tool"`
		Status        mcp.TaskStatus `json:"status"`
		StatusMessage string         `json:"statusMessage,omitempty"`
		CreatedAt     time.Time      `json:"createdAt"`
	}
	meta := struct {
		Tasks      []listed `json:"tasks"`
		NextCursor string   `json:"nextCursor,omitempty"`
	}{Tasks: []listed{}}
	for _, t := range page {
		meta.Tasks = append(meta.Tasks, listed{t.ID, t.Tool, t.Status, t.StatusMessage, t.CreatedAt.UTC()})
		how, line := reading.HowEnded(&t), lastLineOf(ctx, &t)
		if why := firstLine(t.StatusMessage); how == string(mcp.TaskFailed) && why != "" && why != line {
			how += ", " + why
		}
		fmt.Fprintf(&b, "%s %s %s, started %s ago", t.ID, t.Tool, how, text.Age(time.Since(t.CreatedAt)))
		if line != "" {
			b.WriteString(": " + line)
		}
		b.WriteByte('\n')
	}
	switch {
	case more:
		meta.NextCursor = page[len(page)-1].ID
		fmt.Fprintf(&b, "[older ones: call %s with \"cursor\": %q]\n", f.Host.Name("list_tasks"),
			meta.NextCursor)
	case len(page) == 0 && p.All:
		b.WriteString("No tasks.\n")
	case len(page) == 0:
		b.WriteString("No tasks of this session. \"all\": true lists those of others.\n")
	}
	r := mcp.Result(b.String())
	r.Meta = map[string]any{mcp.MetaTasks: meta}
	return r, nil
}

// lastLineOf returns what a running task has found in its output or, if that is nothing, its last line or, if
// it has none, its status message.
func lastLineOf(ctx context.Context, t *tasks.Task) string {
	line := t.LastLine(ctx)
	if matches := t.Matches.Message(); matches != "" && !t.Status.Terminal() {
		line = matches
	}
	switch {
	case t.Status == mcp.TaskInputRequired && tasks.Answered(t.Variables):
		line = tasks.WaitsFor(t)
	case line == "" || t.Status == mcp.TaskInputRequired:
		return firstLine(t.StatusMessage)
	}
	return asListed(line)
}

// firstLine returns the first line of a text as the list shows it.
func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return asListed(line)
}

func asListed(line string) string { return shorten.Clip(text.Printable(line), maxListedLine) }
