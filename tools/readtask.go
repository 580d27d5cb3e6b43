package tools

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tools/text"
)

const (
	// defaultWait and maxWait are how long get_task_result waits: below the 60 s after which some hosts give
	// up.
	defaultWait = 20 * time.Second
	maxWait     = 45 * time.Second
)

// maxGrep is how long get_task_result searches. With maxWait it stays below the 60 s after which some hosts
// give up.
const maxGrep = 10 * time.Second

var errGrep = fmt.Errorf("searching the output takes more than %v: use a simpler grep, or after and tail without it", maxGrep)

// wait returns how long get_task_result waits.
func (p *fallbackParams) wait() time.Duration {
	if p.WaitMs == nil {
		return defaultWait
	}
	return time.Duration(min(*p.WaitMs, float64(maxWait.Milliseconds()))) * time.Millisecond
}

// getTaskResult answers with the new output of a task, and with how it ended. A search for lines (tail, grep)
// does not count as reading: the next answer continues where the last reading ended.
func (s *service) getTaskResult(ctx context.Context, in *Call, p *fallbackParams) (*mcp.CallToolResult, error) {
	lines, err := text.NewFilter(p.Grep, p.Context, p.Tail)
	if err != nil {
		return nil, err
	}
	t, err := s.awaitTask(ctx, p.TaskID, p.wait())
	if errors.Is(err, tasks.ErrNotFound) {
		return nil, errNoTask(p.TaskID)
	} else if err != nil {
		return nil, err
	}
	last := readsOf(in.caller).place(t.ID)
	from := last
	switch {
	case p.After != nil: // no position is beyond the end
		from = taskPlace{next: int64(min(*p.After, float64(t.Log.Size())))}
	case lines != nil:
		from = taskPlace{}
	}
	var content []mcp.ContentBlock
	read := taskPlace{ended: t.Status.Terminal()}
	shaper := s.shaper(in.caller, &t, from.next)
	var sink text.Sink = shaper
	if lines != nil {
		lines.To = shaper
		sink = lines
	}
	reading := ctx
	if lines != nil {
		var cancel context.CancelFunc
		reading, cancel = context.WithTimeoutCause(ctx, maxGrep, errGrep)
		defer cancel()
	}
	if read.next, err = shapeLog(reading, sink, &t, from.next); err != nil {
		return nil, err
	}
	if read.ended && !from.ended {
		content = writeEnding(sink, &t)
	}
	words := leftOut(s.poller(in.caller), t.ID)
	if lines != nil {
		lines.End()
		// positions in the selected lines mean nothing
		words = text.Gap.Words
		read = last
		content = nil
	}
	readsOf(in.caller).set(t.ID, read)
	output, _ := shaper.Text(shaper.Limit, words)
	if output != "" && !strings.HasSuffix(output, "\n") {
		output += "\n"
	}
	result := aboutTask(output+"["+s.statusLine(&t)+"]", taskMeta{TaskID: t.ID, Status: t.Status, Next: read.next})
	result.Content = append(result.Content, content...)
	in.Said.Passed = true // an image of the task's result passes as it does in the result
	if t.Status.Terminal() {
		s.runner.RecordRetrieved(t.ID)
		result.IsError = t.Status != mcp.TaskCompleted || t.Outcome.Result != nil && t.Outcome.Result.IsError
	}
	result.Meta = tasks.WithVariables(result.Meta, &t, result.Size())
	return result, nil
}

// awaitTask returns a task once it has ended, or as it is when the time is up.
func (s *service) awaitTask(ctx context.Context, id string, limit time.Duration) (tasks.Task, error) {
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t, err := s.runner.Await(wait, id)
	if err != nil && wait.Err() != nil && ctx.Err() == nil {
		return s.runner.Get(ctx, id)
	}
	return t, err
}

// shaper returns what shapes the shown part of a task's output, as its result would be shaped.
func (s *service) shaper(c *rpc.Caller, t *tasks.Task, from int64) *text.Shaper {
	var traits Traits
	if e := s.registry.lookup(t.Tool); e != nil {
		traits = e.traits
	}
	return &text.Shaper{Limit: cmp.Or(traits.MaxResult, s.maxResult(c)), KeepFrames: traits.KeepFrames, From: from}
}

// logPiece is how much of a log is read at a time.
const logPiece = 64 << 10

// shapeLog writes what the log of a task has from a position on, and returns where that ends.
func shapeLog(ctx context.Context, to text.Sink, t *tasks.Task, from int64) (next int64, err error) {
	for next = from; next < t.Log.Size(); {
		if ctx.Err() != nil { // writing a piece may take long: a filter matches its lines
			return next, context.Cause(ctx)
		}
		batch, end, err := t.Log.ReadAt(ctx, next, logPiece)
		if err != nil {
			return next, err
		}
		if gone := batch.Start - next; gone > 0 && batch.End > batch.Start {
			if words := partials.LostWords(gone); words != "" {
				to.Insert(words, gone)
			} else {
				to.Skip(gone)
			}
		}
		for _, c := range batch.Chunks() {
			size := int64(len(c.Data))
			if c.Kind == partials.Text {
				plain := c.Plain()
				_, _ = to.Write(plain) // never fails
				to.Skip(size - int64(len(plain)))
			} else if item, ok := mcp.TextOf(c.Data); ok {
				_, _ = to.Write([]byte(item))
				to.Skip(size - int64(len(item)))
			} else {
				to.Insert("["+rawjson.StringMember(c.Data, "type")+"]", size)
			}
		}
		if end <= next {
			break
		}
		next = end
	}
	return next, nil
}

// writeEnding writes the text that the result of a task has beyond the output, and returns the rest of the
// result. For a command, that is in the line about its end.
func writeEnding(to text.Sink, t *tasks.Task) (rest []mcp.ContentBlock) {
	result := t.Outcome.Result
	if result == nil {
		to.Insert(t.Outcome.Err.Message, 0)
		return nil
	}
	beyond := result.Content
	if ending := t.Segments.Ending(); ending != nil {
		beyond = ending.Rest
	}
	for _, c := range beyond {
		if said, ok := mcp.TextOf(c); ok && said != "" && !mcp.IsEnd(c) {
			to.Insert(said, 0)
		}
	}
	structured := result.StructuredContent
	for _, c := range result.Content {
		said, ok := mcp.TextOf(c)
		switch {
		case !ok && !bytes.Contains(c, []byte(tasks.LogURI(t.ID))): // this tool reads its log
			rest = append(rest, c)
		case sameJSON(json.RawMessage(said), structured):
			structured = nil
		}
	}
	if _, command := CommandResult(result); structured != nil && !command { // a command's repeats its output
		rest = append(rest, mcp.Text(string(structured)))
	}
	return rest
}

// sameJSON reports whether two texts are the same JSON value, however they are written: arguments from a page
// have passed through its host.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// statusLine says how a task is and, if it has not ended, what to do.
func (s *service) statusLine(t *tasks.Task) string {
	again := "call " + s.registry.fallbackName("get_task_result") + " again"
	switch {
	case t.Status == mcp.TaskInputRequired:
		return fmt.Sprintf("waits for its user to answer %q: %s", t.StatusMessage, again)
	case !t.Status.Terminal():
		return fmt.Sprintf("%s for %s: %s", t.Status, text.Age(time.Since(t.CreatedAt)), again)
	}
	return howEnded(t) + ", " + text.Seconds(t.UpdatedAt.Sub(t.CreatedAt))
}

// howEnded returns the status of a task that has ended, with a command's exit.
func howEnded(t *tasks.Task) string {
	how := string(t.Status)
	if t.Outcome == nil || t.Outcome.Result == nil {
		return how
	}
	exitCode, command := CommandResult(t.Outcome.Result)
	switch {
	case !command:
		return how
	case t.Outcome.Result.IsError:
		verdict, _, _ := strings.Cut(t.StatusMessage, "\n")
		return how + ", " + verdict
	default:
		return fmt.Sprintf("%s, exit code %d", how, exitCode)
	}
}
