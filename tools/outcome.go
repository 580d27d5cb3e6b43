package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"runnel/internal/shorten"
	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tools/reading"
	"runnel/tools/text"
)

// run calls the tool. Mistakes that a model can correct (bad arguments, a tool's plain error) become a result
// with isError: "Input validation errors" are tool execution errors, which "contain actionable feedback that
// language models can use to self-correct" (2025-11-25 server/tools, "Error Handling").
func (e *entry) run(ctx context.Context, in *Call, log *partials.Log,
	report func(p tasks.Progress, params json.RawMessage)) *run.Done {
	out := NewOutput(ctx, log, nil)
	out.report = report
	// A fallback tool shows text that was masked when it was stored. Its result is not masked again, since a
	// pattern may match the ids of tasks.
	if !e.extra {
		out.secrets = in.run.Secrets()
		out.stdout.secrets = out.secrets.Stream()
		out.stderr.secrets = out.secrets.Stream()
	}
	result, err := e.tool.Call(ctx, in, out)
	out.flush()
	return in.outcome(ctx, out, result, err)
}

// outcome is the outcome of a tool call.
func (c *Call) outcome(ctx context.Context, out *Output, result *mcp.CallToolResult, err error) *run.Done {
	wire, isWire := errors.AsType[*rpc.Error](err)
	switch {
	case isWire:
		return &run.Done{Err: wire}
	case errors.Is(err, ErrCannotAsk) && c.caller != nil && c.caller.Version.Stateless && !c.CanAsk():
		missing, _ := errors.AsType[*rpc.Error](need(c.caller, "elicitation/create", nil))
		if why := err.Error(); why != ErrCannotAsk.Error() { // it may say what the user can do instead
			missing.Message += ": " + why
		}
		return &run.Done{Err: missing}
	case err != nil:
		result = mcp.ErrorResult(err.Error())
	case result == nil:
		result = c.written(ctx, out)
	}
	result = new(*result) // a tool may return the same result each time
	result.Content = slices.Clip(result.Content)
	if result.Content == nil {
		result.Content = []mcp.ContentBlock{}
	}
	if result.IsError && c.Said.Status == "" {
		c.Said.Status = firstText(result)
	}
	if result = c.mask(out, result); c.Said.Passed {
		result = c.pass(ctx, out, result)
	} else {
		result = ownLimits.apply(result)
	}
	if c.Said.Rest == nil {
		if rest, some := out.beyond(result.Content); some {
			c.Said.Rest = &rest
		}
	}
	if c.Said.Truncated && c.keep(ctx) && (c.caller == nil || c.caller.Version.ResourceLinks) {
		t := c.run.Task()
		result.Content = append(result.Content, tasks.LinkLog(&t))
	}
	return &run.Done{Result: result, Status: c.Said.Status, Rest: c.Said.Rest, Masked: true}
}

// written returns what was written to the output as the result. Of a longer output it is the beginning, with
// a link to the log.
func (c *Call) written(ctx context.Context, out *Output) *mcp.CallToolResult {
	ctx = context.WithoutCancel(ctx)
	result := &mcp.CallToolResult{}
	var said []byte
	flush := func() {
		if len(said) > 0 {
			result.Content = append(result.Content, mcp.Text(string(said)))
		}
		said = nil
	}
	size := 0
	for next := int64(0); next < out.log.Size() && !c.Said.Truncated; {
		batch, end, err := out.log.ReadAt(ctx, next, writtenPiece)
		if err != nil || end <= next {
			break
		}
		for _, chunk := range batch.Chunks() {
			switch size += len(chunk.Data); {
			case size > maxWritten:
				c.Said.Truncated = true
			case chunk.Kind != partials.Text:
				flush()
				result.Content = append(result.Content, bytes.Clone(chunk.Data))
			case chunk.Stream == partials.Stdout:
				said = append(said, chunk.Data...)
			}
		}
		next = end
	}
	flush()
	c.Said.Rest = &[]mcp.ContentBlock{} // a client that has followed the output has all of it
	return result
}

// writtenPiece is how much of the log is read at a time.
const writtenPiece = 64 << 10

// maxWritten is how much of an output becomes the result: it fits into a line, also where each byte takes
// two.
const maxWritten = mcp.MaxContent / 2

// mask masks secrets in the outcome before it is cut to fit: half a secret would not be recognized. It also
// sets the items beyond the output.
func (c *Call) mask(out *Output, result *mcp.CallToolResult) *mcp.CallToolResult {
	s := out.secrets
	if s == nil {
		return result
	}
	c.Said.Status = s.String(c.Said.Status)
	if c.Said.Rest == nil {
		if rest, some := out.beyond(result.Content); some { // compared as they were when they were written
			c.Said.Rest = &rest
		}
	}
	// Stands for the task's id until the secrets are masked: a pattern may match it where the result says how
	// to get the rest.
	const ownID = "\uFDD0"
	if c.Said.Rest != nil {
		rest := run.MaskContent(s, replaced(*c.Said.Rest, c.run.ID(), ownID))
		c.Said.Rest = new(replaced(rest, ownID, c.run.ID()))
	}
	masked := *result
	masked.Content = replaced(result.Content, c.run.ID(), ownID)
	masked = *run.MaskResult(s, &masked)
	masked.Content = replaced(masked.Content, ownID, c.run.ID())
	return &masked
}

// replaced returns content in which one text stands for another.
func replaced(content []mcp.ContentBlock, old, text string) []mcp.ContentBlock {
	list := make([]mcp.ContentBlock, len(content))
	for i, item := range content {
		list[i] = bytes.ReplaceAll(item, []byte(old), []byte(text))
	}
	return list
}

func firstText(result *mcp.CallToolResult) string {
	for _, c := range result.Content {
		if text, ok := mcp.TextOf(c); ok {
			return text
		}
	}
	return ""
}

// fitting is how a result is made to fit on a line: the longest texts lose their middle, and an item that is
// too large by itself is replaced by a note.
type fitting struct {
	limit      int // bytes of all content
	structured int // bytes of structured content
	words      func(text.Gap) string
	// places are where the items, and then the structured content, begin in the task's log; nil = they are
	// not there.
	places []int64
}

// ownLimits are those of a result of runnel's own.
var ownLimits = fitting{limit: mcp.MaxContent, structured: mcp.MaxContent / 2, words: text.Gap.Words}

func (f fitting) apply(result *mcp.CallToolResult) *mcp.CallToolResult {
	if result.Size() <= f.limit {
		return result
	}
	fitted := *result
	fitted.Content = nil
	if n := len(result.StructuredContent); n > f.structured {
		fitted.StructuredContent = nil
		fitted.Content = append(fitted.Content, f.note("structured content", n, len(result.Content)))
	}
	left := f.limit - len(fitted.StructuredContent)
	for i, c := range result.Content {
		if left < 2*minShare {
			fitted.Content = append(fitted.Content,
				mcp.Text(shorten.LeftOut(int64(len(result.Content)-i), "items", "")))
			break
		}
		if share := max(left/(len(result.Content)-i), minShare); len(c) > share {
			c = f.item(c, share, i)
		}
		left -= len(c)
		fitted.Content = append(fitted.Content, c)
	}
	return &fitted
}

// minShare is the least that an item gets: room for a text that says what is left out.
const minShare = 1 << 10

// item returns an item of at most limit bytes in place of a larger one: a shorter text, or a note about what
// is not text.
func (f fitting) item(c mcp.ContentBlock, limit, place int) mcp.ContentBlock {
	t, ok := mcp.TextOf(c)
	if !ok {
		return f.note(rawjson.StringMember(c, "type"), len(c), place)
	}
	limit -= len(`{"type":"text","text":""}`)
	s := text.Shaper{Limit: limit, KeepFrames: true}
	if f.places != nil {
		s.From = f.places[place]
	}
	_, _ = s.Write([]byte(t)) // never fails
	short, _ := s.Text(limit, f.words)
	return mcp.Text(short)
}

// note stands for something that is not text.
func (f fitting) note(what string, size, place int) mcp.ContentBlock {
	if f.places == nil {
		return mcp.Text(fmt.Sprintf("[%s of %d bytes: too large for a result]", what, size))
	}
	return mcp.Text(fmt.Sprintf("[%s of %d bytes: too large for a result]\n%s", what, size,
		f.words(text.Gap{After: f.places[place], Bytes: int64(size)})))
}

// passLimits are those of the result of another server, which passes as it is if its client can read the
// line.
var passLimits = fitting{limit: mcp.MaxPassed, structured: mcp.MaxPassed - 16*minShare}

// pass makes the result of another server fit. Of one that is too long, everything is in the task's log, and
// the result says how to read it; of one that is a task, long texts are, since get_task_result shows only a
// part of them.
func (c *Call) pass(ctx context.Context, out *Output, result *mcp.CallToolResult) *mcp.CallToolResult {
	long := result.Size() > passLimits.limit
	if !long && (c.run == nil || !c.run.HasHandle()) {
		return result
	}
	f := passLimits
	f.words = text.Gap.Words
	c.Said.Truncated = c.Said.Truncated || long
	rest := result.Content
	if c.Said.Rest != nil {
		rest = *c.Said.Rest
	} else if beyond, some := out.beyond(result.Content); some {
		rest = beyond
	}
	if len(rest) != len(result.Content) { // the others are in the log, wherever they came
		return f.apply(result)
	}
	if c.keep(ctx) { // before something is written to the log
		f.words = reading.LeftOut(c.server.poller(c.caller), c.TaskID)
	}
	kept := []mcp.ContentBlock{} // beyond the log
	write := func(s string) {
		f.places = append(f.places, out.log.Size())
		_ = out.WriteString(s) // it fails only if the call has ended
		if s != "" && s[len(s)-1] != '\n' {
			_ = out.WriteString("\n")
		}
	}
	for _, item := range rest {
		said, ok := mcp.TextOf(item)
		switch {
		case ok && (long || len(said) > text.DefaultMaxResult):
			write(said)
		case long:
			write(string(item))
		default:
			kept = append(kept, item)
		}
	}
	if long {
		write(string(result.StructuredContent))
	}
	c.Said.Rest = &kept
	fitted := f.apply(result)
	// Clients check a result against the output schema, and show nothing of one that lacks structured
	// content, unless it is an error.
	fitted.IsError = fitted.IsError || len(fitted.StructuredContent) < len(result.StructuredContent)
	return fitted
}
