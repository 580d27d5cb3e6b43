package model

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"runnel/internal/shorten"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tools"
)

// A model with "tools:" may answer with calls of them. Each call is a task of its own, which ends with the
// task of the model; its result goes back with the next request. The log says what runs, and how it ended.

// converse asks until an answer calls no tools.
func (c *call) converse(ctx context.Context) error {
	names, err := c.offerTools(ctx)
	if err != nil {
		return err
	}
	for {
		a, err := c.ask(ctx)
		// The calls of an answer that has reached its most tokens may lack their ends.
		if err != nil || len(a.calls) == 0 || a.stop != stopEnd {
			return err
		}
		if len(c.talk.rounds)+1 == c.conf.MaxRounds {
			return fmt.Errorf("the model wants to go on after %d rounds (maxRounds)", c.conf.MaxRounds)
		}
		results, err := c.runTools(ctx, names, a.calls)
		if err != nil {
			return err
		}
		c.talk.fit(results)
		c.talk.rounds = append(c.talk.rounds, round{a.said, results})
	}
}

// offerTools describes the tools of the config to the model. names are the tools' names by those under which
// the model knows them.
func (c *call) offerTools(ctx context.Context) (names map[string]string, err error) {
	names = map[string]string{}
	for _, name := range c.conf.Tools {
		spec, ok := c.in.Callable(ctx, name)
		if !ok {
			return nil, fmt.Errorf("model.tools names %q, and there is no such tool", name)
		}
		spec.Name = nameFor(name)
		if other, taken := names[spec.Name]; taken {
			return nil, fmt.Errorf("model.tools names %s and %s, which are both %s for the model", other,
				name, spec.Name)
		}
		names[spec.Name] = name
		c.talk.tools = append(c.talk.tools, spec)
	}
	return names, nil
}

// nameFor returns the name of a tool as all providers take it: up to 64 letters, digits, _ and -.
func nameFor(tool string) string { return shorten.Cut(strings.ReplaceAll(tool, ".", "_"), 64) }

// sideBySide is how many tools of one answer run at the same time.
const sideBySide = 8

// runTools runs what an answer calls, and returns what came of it, in the order of the calls. The error is
// that of ctx or of the output; all that it has begun has ended then.
func (c *call) runTools(ctx context.Context, names map[string]string,
	calls []toolCall) (results []result, err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	note := func(line string) {
		if err := c.note(line); err != nil {
			end(err)
		}
	}
	for some := range slices.Chunk(calls, sideBySide) {
		children := make([]*tools.Child, len(some))
		begun := len(results)
		for i, call := range some {
			r := result{toolCall: call}
			if name, ok := names[call.name]; !ok {
				r.text, r.failed = fmt.Sprintf("unknown tool: %q", call.name), true
			} else if children[i], err = c.in.MakeChild(ctx, name, call.arguments); err != nil {
				r.text, r.failed = err.Error(), true
			}
			results = append(results, r)
			note(fmt.Sprintf("[%s %s]", shorten.Clip(call.name, 64), begins(children[i], r.text)))
			if children[i] != nil {
				children[i].Begin()
			}
		}
		stop := context.AfterFunc(ctx, func() {
			for _, child := range children {
				if child != nil {
					child.Cancel("the call of the model has ended")
				}
			}
		})
		for i, child := range children {
			if child == nil {
				continue
			}
			t, r := child.Wait(), &results[begun+i]
			r.text, r.failed = resultText(t.Outcome.Result), t.Status != mcp.TaskCompleted
			if t.Outcome.Err != nil {
				r.text = t.Outcome.Err.Error()
			}
			ended, why := string(t.Status), strings.SplitN(t.StatusMessage, "\n", 2)[0]
			if why != "" {
				ended += ", " + why
			}
			note(fmt.Sprintf("[%s: %s]", r.name, ended))
		}
		stop()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return results, nil
}

const (
	// maxResult bounds what a model reads of the result of a tool, in bytes without the line that says what
	// is left out; maxResults bounds that of all results of a call, which is more than the largest model
	// reads.
	maxResult  = 256 << 10
	maxResults = 4 << 20
	// leastResult is the least of a result that is worth its room.
	leastResult = 1 << 10
)

// fit shortens the results that a conversation has no room for to their heads and tails.
func (c *conversation) fit(results []result) {
	left := maxResults
	for i := range c.rounds {
		for _, r := range c.rounds[i].results {
			left -= len(r.text)
		}
	}
	for i := range results {
		r := &results[i]
		room := min(maxResult, left/(len(results)-i))
		switch {
		case len(r.text) <= room:
		case room < leastResult:
			r.text = shorten.LeftOut(int64(len(r.text)), "bytes", "the results of this call are too long")
		default:
			head, from := shorten.Cut(r.text, room/2), len(r.text)-room/2
			for !utf8.RuneStart(r.text[from]) {
				from++
			}
			r.text = head + "\n" + shorten.LeftOut(int64(from-len(head)), "bytes", "") + "\n" + r.text[from:]
		}
		left = max(left-len(r.text), 0)
	}
}

// begins says what becomes of a call: the task that it runs as, or what is wrong with it.
func begins(child *tools.Child, wrong string) string {
	if child == nil {
		return "is not run: " + shorten.Clip(wrong, maxFailure)
	}
	return "runs as task " + child.ID()
}

// resultText returns what a model reads of the result of a tool.
func resultText(r *mcp.CallToolResult) string {
	if r == nil {
		return ""
	}
	var all []string
	for _, item := range r.Content {
		if text, ok := mcp.TextOf(item); ok {
			all = append(all, text)
		} else {
			all = append(all, fmt.Sprintf("[%s, which is not shown]", rawjson.StringMember(item, "type")))
		}
	}
	if len(all) == 0 {
		return string(r.StructuredContent)
	}
	return strings.Join(all, "\n")
}
