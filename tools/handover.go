package tools

import (
	"context"
	"errors"
	"fmt"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/feed"
	"runnel/tasks/run"
	"runnel/tools/schema"
)

// handOver answers a plain call whose tool is still running before the host gives up on it: it says how to
// continue, with the output so far. It returns nil if the client could not continue or the task cannot be
// kept; then the call keeps waiting.
func (s *service) handOver(ctx context.Context, e *entry, d *delivery) *mcp.CallToolResult {
	c, run := d.Caller, d.Run
	if !s.canResume(c) {
		return nil
	}
	if err := run.Promote(ctx); err != nil {
		if !errors.Is(err, tasks.ErrEnded) {
			s.o.Log.Warn().Err(err).Str("taskId", run.ID()).Msg("a long call cannot be handed over: it goes on waiting")
		}
		return nil
	}
	d.audience.left.Store(true)
	d.Silence()
	if d.Spelling == feed.PR383 || d.Spelling == feed.SEP2998 {
		d.EndPartials()
	}
	var output string
	var place taskPlace
	if d.Spelling == feed.PR383 {
		place.next = d.Pos() // everything before was sent
	} else {
		t := run.Task()
		shaper := s.shaper(c, &t, 0)
		var err error
		if place.next, err = shapeLog(ctx, shaper, &t, 0); err != nil {
			s.o.Log.Warn().Err(err).Str("taskId", run.ID()).Msg("reading the output of a call that is handed over")
		}
		output, place.gap = s.shown(c, run.ID(), shaper, place.gap)
	}
	readsOf(c).set(run.ID(), place)
	// The sentence comes first: most hosts show their model only the beginning of a long text.
	sentence := s.howToResume(c, run)
	content := []mcp.ContentBlock{mcp.Text(sentence)}
	if output != "" {
		content = []mcp.ContentBlock{mcp.Text(sentence + " Its output so far:\n"), mcp.Text(output)}
	}
	task := taskMeta{TaskID: run.ID(), Status: mcp.TaskWorking, Next: place.next}
	result := tasks.WithRelated(&mcp.CallToolResult{Content: content}, run.ID())
	result.Meta[mcp.MetaTask] = task
	switch {
	case e.spec.OutputSchema == nil:
	case !e.joined && schema.New(e.spec.OutputSchema, "").Check(rawjson.Encode(task)) == nil:
		result.StructuredContent = rawjson.Encode(task)
	default: // clients check any other result against the schema
		result.IsError = true
	}
	return result
}

// howToResume tells a model how to continue a call that is handed over, with what it can call.
func (s *service) howToResume(c *rpc.Caller, run *run.Run) string {
	running := fmt.Sprintf("%s is still running, as task %s.", run.Task().Tool, run.ID())
	switch e := s.registry.lookup(run.Task().Tool); {
	case e != nil && s.typed(e):
		return fmt.Sprintf("%s It reads what you type: call %s with {\"task_id\": %q, \"text\": \"...\\n\"}; without text, that waits for what it writes.",
			running, s.registry.fallbackName(sendToTask), run.ID())
	case s.fallbackListed(c):
		return fmt.Sprintf("%s Call %s with {\"task_id\": %q} to wait for what comes next and for the result; %s stops it.",
			running, s.poller(c), run.ID(), s.registry.fallbackName("cancel_task"))
	case c.Version.Stateless: // the tasks extension has no tasks/result
		return running + " Its host waits for the result with tasks/get, and stops it with tasks/cancel."
	default:
		return running + " Its host waits for the result with tasks/result, looks at it with tasks/get, and stops it with tasks/cancel."
	}
}
