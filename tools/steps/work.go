package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"runnel/internal/pause"
	"runnel/internal/shorten"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools"
	"runnel/tools/text"
)

// record is the note about a step, or about one of its tasks.
type record struct {
	Task     string   `json:"task,omitempty"`    // of the last attempt (tasks.Begun)
	Attempt  int      `json:"attempt,omitempty"` // the first is 1
	End      string   `json:"end,omitempty"`
	Why      string   `json:"why,omitempty"`
	ExitCode *int     `json:"exitCode,omitempty"`
	Answer   string   `json:"answer,omitempty"`
	Tasks    []string `json:"tasks,omitempty"` // of a step that has ended: those that have its output
}

// end returns how the task of the record ended.
func (r record) end() end {
	e := end{status: r.End, why: r.Why, exitCode: r.ExitCode}
	if r.Task != "" {
		e.tasks = []string{r.Task}
	}
	return e
}

// recorded returns the record of a key.
func (c *call) recorded(key string) (record, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.records[key]
	return r, ok
}

// note stores the record of a key, and deletes others. With it go the records of items that have ended since
// the last note: until then, their ends are found in their tasks.
func (c *call) note(ctx context.Context, key string, r record, others ...string) error {
	c.mu.Lock()
	notes := c.unnoted
	c.unnoted = map[string]any{}
	c.records[key], notes[key] = r, r
	for _, other := range others {
		notes[other] = nil
	}
	c.mu.Unlock()
	return c.in.Remember(ctx, notes)
}

// recordsOf returns the keys of the records of a step's tasks, which the record of the step itself replaces.
func (c *call) recordsOf(s *step) (keys []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.records {
		if strings.HasPrefix(key, s.ID+".") {
			keys = append(keys, key)
		}
	}
	return keys
}

// limitItems bounds the tasks of one step.
const limitItems = 1000

// work runs the tasks of a step.
func (c *call) work(ctx context.Context, s *step) end {
	if s.Foreach == "" {
		return c.task(ctx, s, s.ID+".1", nil)
	}
	list, err := c.list(s)
	if err == nil && len(list) > limitItems {
		err = fmt.Errorf("foreach has %d items: the limit is %d", len(list), limitItems)
	}
	if err != nil {
		return end{status: failed, why: err.Error()}
	}
	ends := make([]end, len(list))
	whole := end{status: completed}
	var all sync.WaitGroup
	begin := make(chan struct{}, atOnce) // bounds the goroutines
	for i, item := range list {
		key := fmt.Sprintf("%s.%d", s.ID, i+1)
		begin <- struct{}{}
		if why := c.stopped(); why != "" {
			<-begin
			ends[i] = end{status: failed, why: "it has not begun: " + why}
			continue
		}
		all.Go(func() {
			defer func() { <-begin }()
			ends[i] = c.task(ctx, s, key, item)
		})
	}
	all.Wait()
	for i, e := range ends {
		whole.tasks = append(whole.tasks, e.tasks...)
		switch {
		case e.status == "":
			return end{}
		case e.status == failed && whole.status == completed:
			whole.status, whole.exitCode, whole.why = failed, e.exitCode, fmt.Sprintf("item %d: %s", i+1, e.why)
		}
	}
	return whole
}

// list returns the items of a foreach.
func (c *call) list(s *step) ([]json.RawMessage, error) {
	if given, ok := c.given[sole(&s.foreach)]; ok {
		return items(string(given))
	}
	return items(s.foreach.Fill(c.text))
}

// task runs the tool of a step once, or as often as its retry says. item is that of a foreach, nil without
// one.
func (c *call) task(ctx context.Context, s *step, key string, item json.RawMessage) end {
	r, _ := c.recorded(key)
	if r.End != "" {
		return r.end()
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return end{}
	}
	for attempt := max(r.Attempt, 1); ; attempt++ {
		var e end
		var over bool
		if r.Task != "" {
			e, over = c.earlier(ctx, s, key, r)
			r.Task = ""
			if !over {
				attempt-- // it was cut off, and that is no failure of the tool
				continue
			}
		} else {
			e = c.attempt(ctx, s, key, attempt, item)
		}
		if e.status != failed || s.Retry == nil || attempt > s.Retry.Times || !c.worthAnother(s, e) {
			return e
		}
		wait := s.Retry.Pause(attempt + 1)
		_ = c.out.WriteString(fmt.Sprintf("%s: attempt %d begins in %s: %s\n", name(s, key), attempt+1,
			text.Seconds(wait), firstLine(e.why)))
		if !pause.For(ctx, wait) {
			return end{}
		}
	}
}

// worthAnother reports whether a failure is one after which the retry of a step begins another attempt.
func (c *call) worthAnother(s *step, e end) bool {
	if e.why == timedOut(s) {
		return s.Retry.Timeout
	}
	return s.Retry.After(e.exitCode)
}

func timedOut(s *step) string { return "timed out after " + s.Timeout.String() }

// name is that of a task of a step, for people.
func name(s *step, key string) string {
	if s.Foreach == "" {
		return s.ID
	}
	return key
}

// earlier returns the end of a task that an earlier process has begun; over is false if it is to be run
// again.
func (c *call) earlier(ctx context.Context, s *step, key string, r record) (e end, over bool) {
	t, err := c.in.EndOf(ctx, r.Task)
	if ctx.Err() != nil {
		return end{}, true
	}
	if err == nil && !t.Interrupted() {
		return c.ended(ctx, s, key, r.Attempt, &t), true
	}
	_ = c.out.WriteString(fmt.Sprintf("%s: was cut off as task %s\n", name(s, key), r.Task))
	if c.in.Repeatable(ctx, s.Tool) || s.Retry != nil && s.Retry.Times > 0 {
		return end{}, false
	}
	switch c.person(ctx, name(s, key), key+"."+r.Task, fmt.Sprintf(
		"Step %s (%s) was cut off while it ran. Run it again?", name(s, key), s.Tool)) {
	case "yes":
		return end{}, false
	case "no":
		return c.close(ctx, s, key, r, end{status: failed,
			why: "it was cut off, and is not to be run again"}), true
	}
	return end{}, true
}

// attempt runs the tool of a step once.
func (c *call) attempt(ctx context.Context, s *step, key string, attempt int, item json.RawMessage) end {
	if ctx.Err() != nil {
		return end{}
	}
	arguments, err := fill(s.With, func(text string) (any, bool) { return c.argument(text, item) })
	var child *tools.Child
	if err == nil {
		child, err = c.in.MakeChild(ctx, s.Tool, arguments)
	}
	if err != nil {
		if ctx.Err() != nil {
			return end{}
		}
		return c.close(ctx, s, key, record{Attempt: attempt}, end{status: failed, why: err.Error()})
	}
	// The id first: a task that no note names would run twice.
	if err := c.note(ctx, key, record{Task: child.ID(), Attempt: attempt}); err != nil {
		child.Cancel("it could not be noted that it begins")
		child.Wait()
		if ctx.Err() != nil {
			return end{}
		}
		return end{status: failed, why: err.Error()}
	}
	_ = c.out.WriteString(fmt.Sprintf("%s: begins as task %s\n", name(s, key), child.ID()))
	child.Begin()
	late := time.AfterFunc(time.Duration(1<<63-1), func() { child.Cancel(timedOut(s)) })
	if s.Timeout > 0 {
		late.Reset(time.Duration(s.Timeout))
	}
	t := child.Wait()
	late.Stop()
	if ctx.Err() != nil && (c.in.Closing() || t.Status == mcp.TaskCancelled) {
		return end{} // the process ends, or the call
	}
	return c.ended(ctx, s, key, attempt, &t)
}

// ended notes the end of a task. One whose step has attempts left gets no end.
func (c *call) ended(ctx context.Context, s *step, key string, attempt int, t *tasks.Task) end {
	e := endOf(t)
	r := record{Task: t.ID, Attempt: attempt}
	if e.status == failed && s.Retry != nil && attempt <= s.Retry.Times && c.worthAnother(s, e) {
		return e
	}
	return c.close(ctx, s, key, r, e)
}

// close notes the end of a record: soon, if its task tells it, too.
func (c *call) close(ctx context.Context, s *step, key string, r record, e end) end {
	r.End, r.Why, r.ExitCode = e.status, e.why, e.exitCode
	if s.Foreach != "" && r.Task != "" && r.Answer == "" {
		c.mu.Lock()
		c.records[key], c.unnoted[key] = r, r
		c.mu.Unlock()
	} else if err := c.note(ctx, key, r); err != nil && ctx.Err() != nil {
		return end{}
	}
	return r.end()
}

// maxWhy is how much of what a failed task says is noted, in bytes: a thousand items may fail.
const maxWhy = 200

// endOf returns how a task ended.
func endOf(t *tasks.Task) end {
	e := end{status: completed}
	var result *mcp.CallToolResult
	if t.Outcome != nil {
		result = t.Outcome.Result
	}
	if result != nil {
		if code, is := result.Command(); is {
			e.exitCode = &code
		}
	}
	switch {
	case t.Status == mcp.TaskCancelled:
		e.status, e.why = failed, t.StatusMessage
	case t.Status == mcp.TaskFailed || result != nil && result.IsError:
		e.status, e.why = failed, t.StatusMessage
	}
	if e.status == failed && e.why == "" {
		e.why = string(t.Status)
	}
	e.why = string([]byte(e.why)[:min(len(e.why), maxWhy)])
	e.why = strings.ToValidUTF8(e.why, "")
	return e
}

// maxOutput bounds the output of a step that others can use, in bytes.
const maxOutput = 1 << 20

// load reads the outputs that the placeholders of a step name. A state that is away is asked again: an output
// that is taken for empty would give a wrong result.
func (c *call) load(ctx context.Context, s *step) error {
	for _, id := range s.outputs {
		c.mu.Lock()
		_, known := c.outputs[id]
		c.mu.Unlock()
		if known {
			continue
		}
		said, err := c.output(ctx, id)
		for errors.Is(err, tasks.ErrBusy) && pause.For(ctx, loadAgain) {
			said, err = c.output(ctx, id)
		}
		if err != nil {
			return fmt.Errorf("the output of step %s cannot be read: %w", id, err)
		}
		c.mu.Lock()
		c.outputs[id] = said
		c.mu.Unlock()
	}
	return nil
}

// loadAgain is the pause before a state that is away is asked again.
const loadAgain = time.Second

// output returns what a step has said: what its commands have printed, or the texts of its results.
func (c *call) output(ctx context.Context, id string) (string, error) {
	c.mu.Lock()
	of := c.ends[id].tasks
	c.mu.Unlock()
	var all strings.Builder
	for i, task := range of {
		if all.Len() >= maxOutput {
			break
		}
		t, err := c.in.Stored(ctx, task)
		if err != nil {
			return "", fmt.Errorf("task %s: %w", task, err)
		}
		one, err := said(ctx, &t)
		if err != nil {
			return "", fmt.Errorf("task %s: %w", task, err)
		}
		if i > 0 {
			all.WriteString("\n")
		}
		all.WriteString(one)
	}
	return shorten.Cut(all.String(), maxOutput), nil
}

// shown returns the output of a step for people to read, at most so many bytes.
func (c *call) shown(ctx context.Context, id string, most int) string {
	said, err := c.output(ctx, id)
	if err != nil {
		return fmt.Sprintf("[its output cannot be read: %s]", err)
	}
	return shorten.Clip(said, most)
}
