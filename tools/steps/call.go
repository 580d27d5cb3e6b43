package steps

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools"
	"runnel/tools/inputs"
)

// atOnce is how many tasks of a call run at the same time.
const atOnce = 8

// limitRetries is how often a call on workers goes on after the death of one.
const limitRetries = 100

// call is one call of the tool.
type call struct {
	tool  *Steps
	in    *tools.Call
	out   *tools.Output
	args  inputs.Arguments
	given map[string]json.RawMessage // the arguments as JSON, with defaults
	slots chan struct{}              // holds an element for each task that runs
	done  map[string]chan struct{}   // closed when the step has ended

	mu      sync.Mutex
	records map[string]record // by key
	unnoted map[string]any    // records of items that have ended, which are noted with the next one
	ends    map[string]end    // by step
	outputs map[string]string // by step, of those that placeholders name, once they were read
	failed  string            // the step that has failed, so that no other begins
}

// end is how a step has ended.
type end struct {
	status   string // completed, failed or skipped; "" = the call ended before it
	why      string // of one that has failed or was skipped
	exitCode *int
	answer   string   // of a question: yes or no
	tasks    []string // those that have its output
}

const (
	completed = "completed"
	failed    = "failed"
	skipped   = "skipped"
)

// Call runs the steps until all have ended, or one has failed and what ran then has ended.
func (s *Steps) Call(ctx context.Context, in *tools.Call, out *tools.Output) (*mcp.CallToolResult, error) {
	if s.config.Runs != "" {
		o := tasks.Offer{Class: s.config.Runs, Priority: tasks.Priority(s.config.Priority),
			Timeout: time.Duration(*s.config.QueueTimeout), Retries: limitRetries}
		if err := in.Offer(ctx, o, nil); err != nil {
			return nil, fmt.Errorf("%s cannot be run by a worker: %w", s.name, err)
		}
		return nil, nil
	}
	args, err := s.in.Arguments(in.Arguments)
	if err != nil {
		return mcp.ErrorResult(err.Error()), nil
	}
	if err := in.Begin(ctx); err != nil {
		return nil, err
	}
	if refused, err := in.Resumes(ctx, s.key); err != nil {
		return nil, fmt.Errorf("%s cannot be a task: %w", s.name, err)
	} else if refused != "" {
		_ = out.WriteString("[" + refused + ": these steps end with this runnel]\n")
	}
	c := &call{tool: s, in: in, out: out, args: args, given: map[string]json.RawMessage{},
		slots: make(chan struct{}, atOnce), done: map[string]chan struct{}{}, records: map[string]record{},
		unnoted: map[string]any{}, ends: map[string]end{}, outputs: map[string]string{}}
	_ = json.Unmarshal(in.Arguments, &c.given) // an object, as was checked before
	for name, value := range s.in.Defaults {
		if _, ok := c.given[name]; !ok {
			c.given[name] = value
		}
	}
	c.recall()
	for i := range s.steps {
		c.done[s.steps[i].ID] = make(chan struct{})
	}
	var all sync.WaitGroup
	for i := range s.steps {
		step := &s.steps[i]
		all.Go(func() {
			defer close(c.done[step.ID])
			for _, id := range step.needs {
				<-c.done[id]
			}
			c.finish(ctx, step, c.run(ctx, step))
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		if !in.Closing() {
			in.CancelBegun(context.WithoutCancel(ctx))
		}
		return nil, context.Cause(ctx)
	}
	return c.result(ctx), nil
}

// recall reads the notes of an earlier process.
func (c *call) recall() {
	for key, note := range c.in.Remembered() {
		var r record
		if json.Unmarshal(note, &r) != nil {
			continue
		}
		c.records[key] = r
		if s := c.tool.step(key); s != nil && r.End == failed && !s.ContinueOnError {
			c.failed = key
		}
	}
	if len(c.records) > 0 {
		_ = c.out.WriteString("[these steps go on in another process]\n") // it fails only if the call has ended
	}
}

// run runs a step, unless it has ended in an earlier process, and returns how it ended.
func (c *call) run(ctx context.Context, s *step) end {
	if r, ok := c.recorded(s.ID); ok && r.End != "" {
		return end{status: r.End, why: r.Why, exitCode: r.ExitCode, answer: r.Answer, tasks: r.Tasks}
	}
	if ctx.Err() != nil {
		return end{}
	}
	why := c.stopped()
	c.mu.Lock()
	for _, id := range s.needs {
		if c.ends[id].status == skipped && why == "" {
			why = id + " was skipped"
		}
	}
	c.mu.Unlock()
	if why == "" {
		if err := c.load(ctx, s); ctx.Err() != nil {
			return end{}
		} else if err != nil {
			return end{status: failed, why: err.Error()}
		}
	}
	if why == "" && s.When != "" && !s.when.holds(c.text) {
		why = "when: " + s.When + " does not hold"
	}
	switch {
	case why != "":
		return end{status: skipped, why: why}
	case s.Ask != "":
		return c.ask(ctx, s)
	}
	return c.work(ctx, s)
}

// stopped says why nothing more begins, "" if it may.
func (c *call) stopped() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != "" {
		return c.failed + " has failed"
	}
	return ""
}

// finish notes how a step has ended, and says so in the log.
func (c *call) finish(ctx context.Context, s *step, e end) {
	if e.status == "" { // the call has ended
		return
	}
	before, _ := c.recorded(s.ID)
	r := record{End: e.status, Why: e.why, ExitCode: e.exitCode, Answer: e.answer, Tasks: e.tasks}
	if before.End == "" {
		if err := c.note(ctx, s.ID, r, c.recordsOf(s)...); err != nil {
			if ctx.Err() == nil {
				c.in.Log().Warn().Err(err).Str("taskId", c.in.TaskID).Str("step", s.ID).
					Msg("the end of a step is not stored: in another process it would be looked up again")
			}
		}
		line := s.ID + ": " + e.status
		if e.answer != "" {
			line = s.ID + ": answered " + e.answer
		}
		if e.why != "" {
			line += ": " + firstLine(e.why)
		}
		_ = c.out.WriteString(line + "\n")
	}
	c.mu.Lock()
	c.ends[s.ID] = e
	if e.status == failed && !s.ContinueOnError && c.failed == "" {
		c.failed = s.ID
	}
	ended := len(c.ends)
	c.mu.Unlock()
	c.out.Progress(float64(ended), float64(len(c.tool.steps)), s.ID+": "+e.status)
	if before.End == "" {
		c.tell(ctx, s, e)
	}
}

// ask asks a step's question.
func (c *call) ask(ctx context.Context, s *step) end {
	question := s.ask.Fill(c.text)
	switch c.person(ctx, s.ID, s.ID, question) {
	case "yes":
		return end{status: completed, answer: "yes"}
	case "no":
		return end{status: completed, answer: "no"}
	}
	return end{}
}

// person asks a question of a step, and returns yes, no, or "" if the call has ended before. The answer is
// noted under a key.
func (c *call) person(ctx context.Context, s, key, question string) string {
	if r, ok := c.recorded(key); ok && r.Answer != "" {
		return r.Answer
	}
	_ = c.out.WriteString(s + ": asks: " + question + "\n")
	c.pause(ctx, s, question)
	answer, done, err := c.in.AskLasting(ctx, key, tools.Question{Message: question,
		Schema: json.RawMessage(`{"type":"object","properties":{}}`)})
	if err != nil {
		return ""
	}
	defer done()
	said := "no"
	if answer.Action == mcp.ElicitAccept {
		said = "yes"
	}
	r, _ := c.recorded(key)
	r.Answer = said
	if err := c.note(ctx, key, r); err != nil && ctx.Err() != nil {
		return "" // it is still in the task
	}
	c.pause(ctx, "", "")
	return said
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
