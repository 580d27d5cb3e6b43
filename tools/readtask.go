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

	"runnel/internal/shorten"
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

// wait returns how long a call waits; standard is for one that does not say.
func (p *fallbackParams) wait(standard time.Duration) time.Duration {
	if p.WaitMs == nil {
		return standard
	}
	return time.Duration(min(*p.WaitMs, float64(maxWait.Milliseconds()))) * time.Millisecond
}

// getTaskResult answers with the new output of a task, and with how it ended.
func (s *service) getTaskResult(ctx context.Context, in *Call,
	p *fallbackParams) (*mcp.CallToolResult, error) {
	lines, err := text.NewFilter(p.Grep, p.Context, p.Tail)
	if err != nil {
		return nil, err
	}
	wait := p.wait(defaultWait)
	if p.After != nil && lines == nil { // a page that is full does not become longer
		t, err := s.awaitTask(ctx, p.TaskID, 0)
		if err == nil && t.Log.Size()-position(p.After, &t) >= int64(s.mostOf(in.caller, &t)) {
			wait = 0
		}
	}
	var t tasks.Task
	var sought *until
	if p.Until == "" {
		t, err = s.awaitTask(ctx, p.TaskID, wait)
	} else if sought, err = newUntil(p.Until); err == nil {
		from := readsOf(in.caller).place(p.TaskID).next
		if p.After != nil {
			from = int64(*p.After)
		}
		t, err = s.awaitMatch(ctx, p.TaskID, from, sought, wait)
	}
	if errors.Is(err, tasks.ErrNotFound) {
		return nil, errNoTask(p.TaskID)
	} else if err != nil {
		return nil, err
	}
	var r reading
	switch after := position(p.After, &t); {
	case lines != nil:
		r, err = s.search(ctx, in.caller, &t, lines, after)
	case p.After != nil && after < t.Log.Size():
		r, err = s.page(ctx, in.caller, &t, after)
	case p.After != nil:
		r, err = s.news(ctx, in.caller, &t, taskPlace{next: after})
	default:
		r, err = s.news(ctx, in.caller, &t, readsOf(in.caller).place(t.ID))
	}
	if err != nil {
		return nil, err
	}
	s.showMatches(in.caller, &t, &r)
	readsOf(in.caller).set(t.ID, r.place)
	if sought != nil {
		r.text = sought.words(&t) + r.text
	}
	if r.text != "" && !strings.HasSuffix(r.text, "\n") {
		r.text += "\n"
	}
	if words := s.passwordWords(&t); words != "" {
		r.text += words + "\n"
	}
	meta := taskMeta{TaskID: t.ID, Status: t.Status, Next: r.place.next}
	result := aboutTask(r.text+"["+s.statusLine(&t, r.more)+"]", meta)
	result.Content = append(result.Content, r.content...)
	in.Said.Passed = true // an image of the task's result passes as it does in the result
	if t.Status.Terminal() {
		s.runner.RecordRetrieved(t.ID)
		result.IsError = isError(&t)
	}
	result.Meta = tasks.WithVariables(result.Meta, &t, result.Size())
	return result, nil
}

// found returns what the tool has found in its output since an earlier time, a line for each match.
func found(now, before tasks.Matches, most int) string {
	news := now.News(before)
	if len(news) <= most/2 {
		return news
	}
	return shorten.Cut(news, most/2) + "…\n"
}

// showMatches lets an answer begin with what the tool has found in its output since the last one.
func (s *service) showMatches(c *rpc.Caller, t *tasks.Task, r *reading) {
	r.text = found(t.Matches, readsOf(c).place(t.ID).seen, s.mostOf(c, t)) + r.text
	r.place.seen = t.Matches
}

// position returns the position in a task's log that a client gives: none is beyond the end.
func position(after *float64, t *tasks.Task) int64 {
	if after == nil {
		return 0
	}
	return int64(min(*after, float64(t.Log.Size())))
}

// isError reports whether the result of a task that has ended is an error.
func isError(t *tasks.Task) bool {
	return t.Status != mcp.TaskCompleted || t.Outcome.Result != nil && t.Outcome.Result.IsError
}

// reading is what an answer shows of a task.
type reading struct {
	text    string
	content []mcp.ContentBlock // the rest of the result
	place   taskPlace          // where the next answer continues
	more    bool               // the text says how to continue
}

// search selects lines of the output. It does not count as reading.
func (s *service) search(ctx context.Context, c *rpc.Caller, t *tasks.Task, lines *text.Filter, after int64) (
	r reading, err error,
) {
	ctx, cancel := context.WithTimeoutCause(ctx, maxGrep, errGrep)
	defer cancel()
	shaper := s.shaper(c, t, after)
	lines.To = shaper
	if _, err = shapeLog(ctx, lines, t, after); err != nil {
		return r, err
	}
	if t.Status.Terminal() {
		writeEnding(lines, t)
	}
	lines.End()
	r.text, _ = shaper.Text(shaper.Limit, text.Gap.Words) // positions in the selected lines mean nothing
	r.place = readsOf(c).place(t.ID)
	return r, nil
}

// news is what came after a place: of much, the head and the tail.
func (s *service) news(ctx context.Context, c *rpc.Caller, t *tasks.Task, from taskPlace) (
	r reading, err error,
) {
	if s.traitsOf(t).Screen != [2]int{} {
		return s.screenNews(ctx, c, t, from)
	}
	shaper := s.shaper(c, t, from.next)
	r.place.ended = t.Status.Terminal()
	if r.place.next, err = shapeLog(ctx, shaper, t, from.next); err != nil {
		return r, err
	}
	if r.place.ended && !from.ended {
		r.content = writeEnding(shaper, t)
	}
	r.text, r.place.gap = s.shown(c, t.ID, shaper, from.gap)
	return r, nil
}

// shown returns a shaped text and what it leaves out; if that is nothing, what earlier answers left out.
func (s *service) shown(c *rpc.Caller, id string, shaper *text.Shaper, before text.Gap) (string, text.Gap) {
	words, gap := leftOut(s.poller(c), id), before
	shown, cut := shaper.Text(shaper.Limit, func(g text.Gap) string { gap = g; return words(g) })
	if !cut {
		gap = before
	}
	return shown, gap
}

// page is what follows a position, as much as fits: a model that reads page after page reads all of it once.
// If an answer has left it out between a head and a tail, it ends where that tail began.
func (s *service) page(ctx context.Context, c *rpc.Caller, t *tasks.Task, after int64) (
	r reading, err error,
) {
	page := &text.Page{Shaper: *s.shaper(c, t, after)}
	end := t.Log.Size()
	last := readsOf(c).place(t.ID)
	if gap := last.gap; gap.After <= after && after < gap.After+gap.Bytes {
		end = gap.After + gap.Bytes
		page.End = end
	}
	if _, err = shapeLog(ctx, page, t, after); err != nil {
		return r, err
	}
	follows := func(next, end int64) string {
		return fmt.Sprintf("[... %d bytes follow: %s ...]", end-next, howToRead(s.poller(c), t.ID, next))
	}
	r.text, r.place.next, r.more = page.Text(func(next int64) string { return follows(next, end) })
	switch size := t.Log.Size(); {
	case page.End > 0:
		r.place = last
		if r.more {
			return r, nil
		}
		again := fmt.Sprintf("they were shown before, \"after\": %d shows them again", end)
		r.text += shorten.LeftOut(last.next-end, "bytes", again)
		if r.more = size > last.next || t.Status.Terminal() && !last.ended; r.more {
			r.text += "\n" + follows(last.next, size)
		}
		return r, nil
	case r.more || !t.Status.Terminal():
		return r, nil
	}
	// The rest of the result has its own page if it does not fit.
	ending := s.shaper(c, t, end)
	content := writeEnding(ending, t)
	if r.more = ending.Size() > page.Limit-page.Size(); r.more {
		r.text += follows(end, end)
		return r, nil
	}
	rest, _ := ending.Text(ending.Limit, text.Gap.Words)
	r.text += rest
	r.content = content
	r.place.ended = true
	return r, nil
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
	return &text.Shaper{Limit: s.mostOf(c, t), KeepFrames: s.traitsOf(t).KeepFrames, From: from}
}

func (s *service) traitsOf(t *tasks.Task) (traits Traits) {
	if e := s.registry.lookup(t.Tool); e != nil {
		traits = e.traits
	}
	return traits
}

// mostOf returns how much of a task's output an answer shows, in bytes.
func (s *service) mostOf(c *rpc.Caller, t *tasks.Task) int {
	most := cmp.Or(s.traitsOf(t).MaxResult, s.maxResult(c))
	if ofError := known(c).MaxError; ofError > 0 && t.Status.Terminal() && isError(t) {
		most = min(most, ofError)
	}
	return most
}

// logPiece is how much of a log is read at a time.
const logPiece = 64 << 10

// shapeLog writes what the log of a task has from a position on, and returns where that ends.
func shapeLog(ctx context.Context, to text.Sink, t *tasks.Task, from int64) (next int64, err error) {
	for next = from; next < t.Log.Size() && !to.Full(); {
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
				for data := c.Data; len(data) > 0; {
					plain, rest := text.CutColor(data)
					_, _ = to.Write(plain) // never fails
					to.Skip(int64(len(data) - len(plain) - len(rest)))
					data = rest
				}
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

// statusLine says how a task is and, if it has not ended, what to do unless the answer has said it.
func (s *service) statusLine(t *tasks.Task, said bool) string {
	again := ": call " + s.registry.fallbackName("get_task_result") + " again"
	if said {
		again = ""
	}
	switch {
	case t.Status == mcp.TaskInputRequired:
		return fmt.Sprintf("waits for its user to answer %q%s", t.StatusMessage, again)
	case !t.Status.Terminal():
		return fmt.Sprintf("%s for %s%s", t.Status, text.Age(time.Since(t.CreatedAt)), again)
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
