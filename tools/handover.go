package tools

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/feed"
	"runnel/tasks/methods"
	"runnel/tools/fallback"
	"runnel/tools/reading"
	"runnel/tools/schema"
)

// handOver answers a plain call whose tool is still running, because it is ready or the host would give up on
// it: it says how to continue, with the output so far. It returns nil if the task cannot be kept; then the
// call keeps waiting. So does a call that is not ready and whose client could not continue. One that is ready
// has what it waited for: it is answered, and its task lasts as long as the session, or is stopped if it
// cannot be kept.
func (s *service) handOver(ctx context.Context, e *entry, d *delivery) *mcp.CallToolResult {
	c, run := d.Caller, d.Run
	ready := run.Task().Matches.Ready
	if ready == nil && !s.canResume(c) {
		return nil
	}
	err := run.Promote(ctx)
	if errors.Is(err, tasks.ErrEnded) {
		return nil
	}
	if err != nil && ready == nil {
		s.o.Log.Warn().Err(err).Str("taskId", run.ID()).
			Msg("a long call cannot be handed over: it goes on waiting")
		return nil
	}
	d.audience.left.Store(true)
	d.Silence()
	if d.Spelling == feed.PR383 || d.Spelling == feed.SEP2998 {
		d.EndPartials()
	}
	if err != nil { // who waits for the end of a server waits for ever
		run.Cancel(err.Error())
		return mcp.ErrorResult(fmt.Sprintf("%s: %s\nIt has been stopped, since it cannot go on as a task: %v",
			e.spec.Name, ready, err))
	}
	t := run.Task()
	var output string
	place := reading.Place{Seen: t.Matches}
	if d.Spelling == feed.PR383 {
		place.Next = d.Pos() // everything before was sent
	} else {
		r, err := s.reader(c, &t).News(ctx, reading.Place{})
		if err != nil {
			s.o.Log.Warn().Err(err).Str("taskId", run.ID()).
				Msg("reading the output of a call that is handed over")
		}
		output, place.Next, place.Gap = r.Text, r.Place.Next, r.Place.Gap
	}
	reading.Of(c).Set(run.ID(), place)
	// The sentence comes first: most hosts show their model only the beginning of a long text.
	sentence := s.howToResume(c, &t)
	if matches := t.Matches; len(matches.Named) > 0 {
		matches.Ready = nil // the sentence says it
		sentence += "\n" + reading.Found(matches, tasks.Matches{}, s.mostOf(c, &t))
	}
	if words := s.passwordWords(&t); words != "" {
		sentence += " " + words
	}
	content := []mcp.ContentBlock{mcp.Text(sentence)}
	if output != "" {
		if !strings.HasSuffix(sentence, "\n") {
			sentence += " "
		}
		content = []mcp.ContentBlock{mcp.Text(sentence + "Its output so far:\n"), mcp.Text(output)}
	}
	task := reading.Meta{TaskID: run.ID(), Status: mcp.TaskWorking, Next: place.Next}
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
func (s *service) howToResume(c *rpc.Caller, t *tasks.Task) string {
	running := fmt.Sprintf("%s is still running, as task %s.", t.Tool, t.ID)
	if t.Matches.Ready != nil {
		running = fmt.Sprintf("%s: %s\nIt goes on, as task %s.", t.Tool, t.Matches.Ready, t.ID)
	}
	if t.Status == mcp.TaskInputRequired && tasks.Resumes(t.Variables) != "" && !tasks.Answered(t.Variables) {
		running = fmt.Sprintf("%s %s. It goes on then, as task %s.", t.Tool, tasks.WaitsFor(t), t.ID)
	}
	switch e := s.registry.lookup(t.Tool); {
	case !c.InputOpen():
		return running + " It ends now, with its session: the client has closed the input."
	case e != nil && s.typed(e):
		return fmt.Sprintf("%s It reads what you type: call %s with {\"task_id\": %q, \"text\": "+
			"\"...\\n\"}; without text, that waits for what it writes.",
			running, s.registry.fallbackName(fallback.SendToTask), t.ID)
	case s.fallbackListed(c) || e != nil && e.traits.Serves && s.o.FallbackTools != "never":
		return fmt.Sprintf("%s Call %s with {\"task_id\": %q} to wait for what comes next and for the "+
			"result; %s stops it.",
			running, s.registry.fallbackName("get_task_result"), t.ID, s.registry.fallbackName("cancel_task"))
	case !methods.CanUse(c):
		return running + " It ends with this session."
	case c.Version.Stateless: // the tasks extension has no tasks/result
		return running + " Its host waits for the result with tasks/get, and stops it with tasks/cancel."
	default:
		return running + " Its host waits for the result with tasks/result, looks at it with tasks/get, " +
			"and stops it with tasks/cancel."
	}
}
