package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools/text"
)

// handOver answers a plain call whose tool is still running before its host gives up on it: with what there is
// of the output, and with how to go on. It returns nil if the task cannot be kept; then the call waits on.
func (s *service) handOver(ctx context.Context, e *entry, d *delivery) *mcp.CallToolResult {
	c, run := d.caller, d.run
	if err := run.Promote(ctx); err != nil {
		if !errors.Is(err, tasks.ErrEnded) {
			s.o.Log.Warn().Err(err).Str("taskId", run.ID()).Msg("a long call cannot be handed over: it waits on")
		}
		return nil
	}
	d.silence()
	if d.spelling == byPR383 || d.spelling == bySEP2998 {
		d.endPartials()
	}
	var content []mcp.ContentBlock
	var next int64
	if d.spelling == byPR383 {
		next = d.reader.Pos() // what came before was sent
	} else {
		text, end, err := readText(ctx, run.Log(), 0, maxPage)
		if err != nil {
			s.o.Log.Warn().Err(err).Str("taskId", run.ID()).Msg("reading the output of a call that is handed over")
		}
		if next = end; text != "" {
			content = append(content, mcp.Text(text))
		}
	}
	how := ""
	switch {
	case s.o.FallbackTools == "always" || s.o.FallbackTools != "never" && !s.fallbackHidden(c):
		how = fmt.Sprintf(" Call get_task_result with {\"task_id\": %q, \"after\": %d, \"wait_ms\": %d} to wait for what comes next and for the result; cancel_task stops it.",
			run.ID(), next, maxWait.Milliseconds())
	case c.Version.Tasks:
		how = fmt.Sprintf(" Its host can wait for the result with tasks/result, look at it with tasks/get and stop it with tasks/cancel, each with {\"taskId\": %q}.", run.ID())
		if s.o.FallbackTools != "never" {
			how += " For a host that has no tasks, start runnel with --fallback-tools always."
		}
	case s.fallbackHidden(c): // the tasks extension has no tasks/result
		how = fmt.Sprintf(" Its host can wait for the result with tasks/get and stop it with tasks/cancel, each with {\"taskId\": %q}.", run.ID())
	}
	return tasks.WithRelated(&mcp.CallToolResult{
		IsError:           e.from != nil && e.spec.OutputSchema != nil, // clients check all other results by a schema that is not runnel's
		Content:           append(content, mcp.Text(fmt.Sprintf("%s is still running, as task %s.%s", run.Task().Tool, run.ID(), how))),
		StructuredContent: encode(taskProgress{TaskID: run.ID(), Status: mcp.TaskWorking, Next: &next}),
	}, run.ID())
}

// endPartials marks the last partial result that comes with this request: what the result adds does not come with it.
func (d *delivery) endPartials() {
	d.elsewhere = true
	var m struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(d.dialect.End(nil), &m); err != nil {
		panic("internal error: " + err.Error())
	}
	_ = d.caller.Notify(m.Method, m.Params) // fails only when nobody is there to read it
}

// taskProgress is the structuredContent of results that tell about a task.
type taskProgress struct {
	TaskID        string              `json:"taskId"`
	Status        mcp.TaskStatus      `json:"status"`
	StatusMessage string              `json:"statusMessage,omitempty"`
	Next          *int64              `json:"next,omitempty"`
	Output        *string             `json:"output,omitempty"`
	Result        *mcp.CallToolResult `json:"result,omitempty"`
}

// encode writes as JSON what certainly can be.
func encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic("internal error: encoding JSON: " + err.Error())
	}
	return b
}

// maxPage is how much of a task's output one result shows, in bytes of JSON: with the task's
// result beside it, and both again as text, its line stays below 1 MiB.
const maxPage = 96 << 10

// readText reads a log as text from position after on, and where to go on.
func readText(ctx context.Context, log *partials.Log, after int64, limit int) (output string, next int64, err error) {
	var b strings.Builder
	next = after
	for size := 0; ; {
		batch, end, err := log.ReadAt(ctx, next, min(limit-size, 4<<10))
		if err != nil {
			return b.String(), next, err
		}
		if len(batch.Chunks) == 0 {
			return b.String(), max(next, end), nil
		}
		var page strings.Builder
		if batch.Start > next {
			fmt.Fprintf(&page, "[%d bytes of output are no longer kept]\n", batch.Start-next)
		}
		for _, c := range batch.Chunks {
			if c.Kind == partials.Text {
				page.Write(c.Data)
			} else if t, ok := mcp.TextOf(c.Data); ok {
				page.WriteString(text.Short(t, limit/2))
			} else {
				fmt.Fprintf(&page, "[%s]\n", mcp.ContentType(c.Data))
			}
		}
		encoded := len(encode(page.String()))
		if size+encoded > limit && size > 0 {
			return b.String(), next, nil
		}
		size += encoded
		b.WriteString(page.String())
		if next = end; size >= limit {
			return b.String(), next, nil
		}
	}
}
