package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"runnel/internal/shorten"
	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tools/inputs"
)

// said returns what a task has said: what its command has printed on stdout, or the texts of its result. The
// last newline is left out, as in a shell.
func said(ctx context.Context, t *tasks.Task) (string, error) {
	var all strings.Builder
	switch {
	case t.Outcome == nil:
		return "", errors.New("it has no result")
	case t.Outcome.Err != nil:
		return "", t.Outcome.Err
	}
	if _, is := t.Outcome.Result.Command(); is {
		_, err := tasks.Tail(ctx, t.Log, 0, func(b partials.Batch) error {
			for _, chunk := range b.Chunks() {
				if chunk.Kind == partials.Text && chunk.Stream == partials.Stdout && all.Len() < maxOutput {
					all.Write(chunk.Plain())
				}
			}
			return nil
		})
		if err != nil {
			return "", err
		}
	} else {
		for _, item := range t.Outcome.Result.Content {
			if text, ok := mcp.TextOf(item); ok {
				all.WriteString(text)
			}
		}
	}
	return strings.TrimSuffix(strings.TrimSuffix(shorten.Cut(all.String(), maxOutput), "\n"), "\r"), nil
}

// text returns the value of a placeholder as text. The outputs that it may name have been loaded.
func (c *call) text(name string) string {
	parts := strings.Split(name, ".")
	if len(parts) != 3 {
		return c.args[name].Joined()
	}
	c.mu.Lock()
	e, output := c.ends[parts[1]], c.outputs[parts[1]]
	c.mu.Unlock()
	switch parts[2] {
	case "answer":
		return e.answer
	case "status":
		return e.status
	case "exitCode":
		if e.exitCode != nil {
			return strconv.Itoa(*e.exitCode)
		}
		return ""
	}
	return output
}

// sole returns the name in a text that is a placeholder and nothing else, "" for any other.
func sole(t *inputs.Template) string {
	if len(t.Names) != 1 || !strings.HasPrefix(t.Text, "{{") ||
		strings.Index(t.Text, "}}") != len(t.Text)-len("}}") {
		return ""
	}
	return t.Names[0]
}

// argument returns the value of a text of with. One that is a placeholder and nothing else has the type of
// what it names, and no value if that has none.
func (c *call) argument(text string, item json.RawMessage) (value any, has bool) {
	t := inputs.ParseStep(text)
	switch name := sole(&t); {
	case name == "item" && item != nil:
		return item, true
	case name != "" && !strings.Contains(name, "."):
		given, ok := c.given[name]
		return given, ok
	}
	return t.Fill(func(name string) string {
		if name == "item" && item != nil {
			spelt, _ := inputs.Spell(item) // it is JSON
			return spelt.Joined()
		}
		return c.text(name)
	}), true
}

// result returns the result of the call: how each step ended, then the outputs of those that no other needs.
func (c *call) result(ctx context.Context) *mcp.CallToolResult {
	var lines, outputs strings.Builder
	needed := map[string]bool{}
	for i := range c.tool.steps {
		for _, id := range c.tool.steps[i].needs {
			needed[id] = true
		}
	}
	room := c.in.MaxResult(0)
	for i := range c.tool.steps {
		s := &c.tool.steps[i]
		e := c.ends[s.ID]
		fmt.Fprintf(&lines, "%s: %s", s.ID, e.status)
		if e.answer != "" {
			fmt.Fprintf(&lines, ", answered %s", e.answer)
		}
		if e.why != "" {
			fmt.Fprintf(&lines, ": %s", e.why)
		}
		lines.WriteString("\n")
		if e.status == completed && !needed[s.ID] && s.Ask == "" {
			fmt.Fprintf(&outputs, "\n%s:\n%s\n", s.ID, c.shown(ctx, s.ID, room/2))
		}
	}
	text := lines.String() + shorten.Clip(outputs.String(), room)
	if c.failed != "" {
		c.in.Said.Status = c.failed + ": " + firstLine(c.ends[c.failed].why)
		return mcp.ErrorResult(text)
	}
	return mcp.Result(text)
}

// tell shows how far the call has come in the variables that PMCP has for that (pmcp-tasks,
// types/workflow.rs), so that its clients find it. What cannot be stored there is only missing there.
func (c *call) tell(ctx context.Context, ended *step, e end) {
	type progress struct {
		Name   string `json:"name"`
		Tool   string `json:"tool,omitempty"`
		Status string `json:"status"`
	}
	var list []progress
	c.mu.Lock()
	for i := range c.tool.steps {
		s := &c.tool.steps[i]
		p := progress{s.ID, s.Tool, "pending"}
		if e, ok := c.ends[s.ID]; ok {
			p.Status = e.status
		}
		list = append(list, p)
	}
	c.mu.Unlock()
	patch := map[string]any{"_workflow.progress": map[string]any{"goal": c.tool.Describe().Description,
		"steps": list, "schemaVersion": 1}}
	switch {
	case e.answer != "":
		patch["_workflow.result."+ended.ID] = mcp.Result(e.answer)
	case e.status == completed:
		patch["_workflow.result."+ended.ID] = mcp.Result(c.shown(ctx, ended.ID, maxTold))
	case e.status == failed:
		patch["_workflow.result."+ended.ID] = mcp.ErrorResult(e.why)
	}
	c.set(ctx, patch)
}

// maxTold is how much of a step's output is in the variables, in bytes.
const maxTold = 4 << 10

// pause shows in the variables what the call waits for; "" = for nothing any more.
func (c *call) pause(ctx context.Context, step, question string) {
	if step == "" {
		c.set(ctx, map[string]any{"_workflow.pause_reason": nil})
		return
	}
	c.set(ctx, map[string]any{"_workflow.pause_reason": map[string]any{"type": "question",
		"blockedStep": step, "question": shorten.Clip(question, maxTold)}})
}

func (c *call) set(ctx context.Context, patch map[string]any) {
	if _, err := c.in.SetVariables(ctx, rawjson.Encode(patch)); err != nil && ctx.Err() == nil {
		c.in.Log().Debug().Err(err).Str("taskId", c.in.TaskID).Msg("the variables of steps are not set")
	}
}
