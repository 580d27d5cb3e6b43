package methods

import (
	"maps"
	"slices"
	"strings"

	"runnel/internal/clients"
	"runnel/internal/signal"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// Readable returns a task as its client can take it, and its model can read it: "Servers MUST NOT send an
// inputRequests that the client has not declared support for" (2026-07-28 basic/patterns/mrtr). A task whose
// question others can answer is working for such a client, and says how its user answers. Some clients show
// the error of a task without its newlines, and only its head: there the result of a command that has failed
// is not an error, and says in its first line and in its last how the command ended.
func Readable(c *rpc.Caller, t mcp.DetailedTask) mcp.DetailedTask {
	if t.Status == mcp.TaskInputRequired && t.WaitsFor != "" && !c.Capabilities.AsksByForm() {
		before := len(t.InputRequests)
		maps.DeleteFunc(t.InputRequests, func(_ string, q mcp.InputRequest) bool {
			return q.Method == "elicitation/create" && rawjson.StringMember(q.Params, "mode") != "url"
		})
		if before > 0 && len(t.InputRequests) == 0 {
			t.Status = mcp.TaskWorking
			t.StatusMessage = t.WaitsFor
		}
	}
	if t.Result == nil || !t.Result.IsError || t.Result.Meta[mcp.MetaCommand] == nil ||
		!clients.Find(c.Client.Name, c.Client.Version).Flattens {
		return t
	}
	verdict, _, _ := strings.Cut(t.StatusMessage, "\n")
	result := *t.Result
	result.IsError = false
	result.Content = slices.Clone(result.Content)
	for n, item := range result.Content {
		if text, ok := mcp.TextOf(item); ok {
			result.Content[n] = mcp.Text("failed: " + verdict + "\n" + text)
			break
		}
	}
	if len(result.Content) > 1 { // its first text ends with that line
		result.Content = append(result.Content, mcp.Text("failed: "+verdict))
	}
	t.Result = &result
	return t
}

// Most hosts cannot use tasks, even if their protocol version has them. Those that can show it in their
// sessions: they declare tasks, or use them.

type usedKey struct{}

// Used returns the latch that is set when the caller's session uses tasks, by a task method or by a
// task-augmented call. Use it for what only such a client expects.
func Used(c *rpc.Caller) *signal.Latch {
	return c.SessionValue(usedKey{}, func() any { return &signal.Latch{} }).(*signal.Latch)
}

// CanUse reports whether the caller has shown that it can use tasks.
func CanUse(c *rpc.Caller) bool {
	if c.Version.Stateless {
		return c.Capabilities.Extends(mcp.ExtensionTasks)
	}
	return c.Version.Tasks && (c.Capabilities.Tasks != nil || Used(c).IsSet())
}
