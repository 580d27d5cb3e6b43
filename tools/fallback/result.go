package fallback

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools/reading"
	"runnel/tools/text"
)

const (
	// defaultWait and maxWait are how long get_task_result waits: below the 60 s after which some hosts give
	// up.
	defaultWait = 20 * time.Second
	maxWait     = 45 * time.Second
)

// wait returns how long a call waits; standard is for one that does not say.
func (p *Params) wait(standard time.Duration) time.Duration {
	if p.WaitMs == nil {
		return standard
	}
	return time.Duration(min(*p.WaitMs, float64(maxWait.Milliseconds()))) * time.Millisecond
}

// getTaskResult answers with the new output of a task, and with how it ended.
func (f *Tools) getTaskResult(ctx context.Context, in *Call,
	p *Params) (*mcp.CallToolResult, error) {
	lines, err := text.NewFilter(p.Grep, p.Context, p.Tail)
	if err != nil {
		return nil, err
	}
	wait := p.wait(defaultWait)
	if p.After != nil && lines == nil { // a page that is full does not become longer
		t, err := f.awaitTask(ctx, p.TaskID, 0)
		if err == nil && t.Log.Size()-position(p.After, &t) >= int64(f.Host.Reader(in.Caller, &t).Most) {
			wait = 0
		}
	}
	var t tasks.Task
	var sought *reading.Until
	if p.Until == "" {
		t, err = f.awaitTask(ctx, p.TaskID, wait)
	} else if sought, err = reading.NewUntil(p.Until); err == nil {
		from := reading.Of(in.Caller).Place(p.TaskID).Next
		if p.After != nil {
			from = int64(*p.After)
		}
		t, err = sought.Await(ctx, f.Runner, p.TaskID, from, wait)
	}
	if errors.Is(err, tasks.ErrNotFound) && t.Status.Terminal() { // its ttl has ended it during the wait
		err = nil
	}
	if errors.Is(err, tasks.ErrNotFound) {
		return nil, errNoTask(p.TaskID)
	} else if err != nil {
		return nil, err
	}
	reader := f.Host.Reader(in.Caller, &t)
	var r reading.Reading
	switch after := position(p.After, &t); {
	case lines != nil:
		r, err = reader.Search(ctx, lines, after)
	case p.After != nil && after < t.Log.Size():
		r, err = reader.Page(ctx, after)
	case p.After != nil:
		r, err = reader.News(ctx, reading.Place{Next: after})
	default:
		r, err = reader.News(ctx, reader.Session.Place(t.ID))
	}
	if err != nil {
		return nil, err
	}
	reader.Remember(&r)
	if sought != nil {
		r.Text = sought.Words(&t) + r.Text
	}
	if r.Text != "" && !strings.HasSuffix(r.Text, "\n") {
		r.Text += "\n"
	}
	if words := f.Host.PasswordWords(&t); words != "" {
		r.Text += words + "\n"
	}
	meta := reading.Meta{TaskID: t.ID, Status: t.Status, Next: r.Place.Next}
	result := aboutTask(r.Text+"["+f.statusLine(&t, r.More)+"]", meta)
	result.Content = append(result.Content, r.Content...)
	in.Passes = true // an image of the task's result passes as it does in the result
	if t.Status.Terminal() {
		f.Runner.RecordRetrieved(t.ID)
		result.IsError = reading.IsError(&t)
	}
	result.Meta = tasks.WithVariables(result.Meta, &t, result.Size())
	return result, nil
}

// position returns the position in a task's log that a client gives: none is beyond the end.
func position(after *float64, t *tasks.Task) int64 {
	if after == nil {
		return 0
	}
	return int64(min(*after, float64(t.Log.Size())))
}

// awaitTask returns a task once it has ended, or as it is when the time is up.
func (f *Tools) awaitTask(ctx context.Context, id string, limit time.Duration) (tasks.Task, error) {
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t, err := f.Runner.Await(wait, id)
	if err != nil && wait.Err() != nil && ctx.Err() == nil {
		return f.Runner.Get(ctx, id)
	}
	return t, err
}

// statusLine says how a task is and, if it has not ended, what to do unless the answer has said it.
func (f *Tools) statusLine(t *tasks.Task, said bool) string {
	again := ": call " + f.Host.Name("get_task_result") + " again"
	if said {
		again = ""
	}
	switch {
	case t.Status == mcp.TaskInputRequired:
		if again != "" && tasks.Resumes(t.Variables) != "" && !tasks.Answered(t.Variables) {
			again = "; then" + strings.TrimPrefix(again, ":")
		}
		return tasks.WaitsFor(t) + again
	case !t.Status.Terminal():
		return fmt.Sprintf("%s for %s%s", t.Status, text.Age(time.Since(t.CreatedAt)), again)
	}
	return reading.HowEnded(t) + ", " + text.Seconds(t.UpdatedAt.Sub(t.CreatedAt))
}
