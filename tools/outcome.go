package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
)

// run calls the tool. Mistakes that a model can correct (bad arguments, a tool's plain error) become a result
// with isError: "Input validation errors" are tool execution errors, which "contain actionable feedback that
// language models can use to self-correct" (2025-11-25 server/tools, "Error Handling").
func (e *entry) run(ctx context.Context, in *Call, log *partials.Log, report func(p tasks.Progress, params json.RawMessage)) *run.Done {
	out := NewOutput(ctx, log, nil)
	out.report = report
	if !e.extra { // what a fallback tool shows was masked when it was stored, and a pattern may match the ids of tasks
		out.hide(in.run.Secrets())
	}
	result, err := e.tool.Call(ctx, in, out)
	out.end()
	return in.outcome(ctx, out, result, err)
}

// outcome is the outcome of a tool call.
func (c *Call) outcome(ctx context.Context, out *Output, result *mcp.CallToolResult, err error) *run.Done {
	wire, isWire := errors.AsType[*rpc.Error](err)
	switch {
	case isWire:
		return &run.Done{Err: wire}
	case errors.Is(err, ErrCannotAsk) && c.caller != nil && c.caller.Version.Stateless && !c.CanAsk():
		return &run.Done{Err: need(c.caller, "elicitation/create", nil)}
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
	if result = c.hide(out, result); c.Said.Passed {
		result = c.pass(ctx, out, result)
	} else {
		result = fit(result)
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
		batch, end, err := out.log.ReadAt(ctx, next, logPiece)
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

// maxWritten is how much of an output becomes the result: it fits into a line, also where each byte takes
// two.
const maxWritten = mcp.MaxContent / 2

// hide masks secrets in the outcome before it is cut to fit: half a secret would not be recognized. It also
// sets the items beyond the output.
func (c *Call) hide(out *Output, result *mcp.CallToolResult) *mcp.CallToolResult {
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
	const ownID = "\uFDD0" // stands for the task's id until the secrets are masked: a pattern may match it where the result says how to get the rest
	if c.Said.Rest != nil {
		rest := run.HideContent(s, replaced(*c.Said.Rest, c.run.ID(), ownID))
		c.Said.Rest = new(replaced(rest, ownID, c.run.ID()))
	}
	masked := *result
	masked.Content = replaced(result.Content, c.run.ID(), ownID)
	masked = *run.HideResult(s, &masked)
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
