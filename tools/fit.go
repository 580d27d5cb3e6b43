package tools

import (
	"context"
	"fmt"

	"runnel/internal/shorten"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tools/text"
)

// fitting is how a result is made to fit on a line: the longest texts lose their middle, and an item that is
// too large by itself is replaced by a note.
type fitting struct {
	limit      int // bytes of all content
	structured int // bytes of structured content
	words      func(text.Gap) string
	places     []int64 // where the items, and then the structured content, begin in the task's log; nil = they are not there
}

// fit makes the content of a result of runnel's own fit.
func fit(result *mcp.CallToolResult) *mcp.CallToolResult {
	return fitting{limit: mcp.MaxContent, structured: mcp.MaxContent / 2, words: text.Gap.Words}.apply(result)
}

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
			fitted.Content = append(fitted.Content, mcp.Text(shorten.LeftOut(int64(len(result.Content)-i), "items", "")))
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
	return mcp.Text(fmt.Sprintf("[%s of %d bytes: too large for a result]\n%s", what, size, f.words(text.Gap{After: f.places[place], Bytes: int64(size)})))
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
		f.words = leftOut(c.server.poller(c.caller), c.TaskID)
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
