package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"runnel/partials/tracker"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/logs"
	"runnel/tasks/run"
	"runnel/tools"
)

// result converts the server's result to one of this call.
func (c *call) result(raw json.RawMessage) (*mcp.CallToolResult, error) {
	result, err := readResult(raw)
	if err != nil {
		return nil, c.failure(fmt.Errorf("its result cannot be read: %w", err))
	}
	came := c.remote.Tracker()
	if _, message := came.End(); result.IsError {
		c.in.Said.Status = message
	}
	compared, rest := came.Compare(result.Content)
	id := c.theirTask(result.Content)
	result.Content, rest = c.withoutLog(id, result.Content), c.withoutLog(id, rest)
	if result.Meta[mcp.MetaCommand] != nil && compared != tracker.NoneStreamed &&
		compared != tracker.ResultEmpty && !c.remote.CutShort() {
		// The tool is another runnel's command, whose result shows what has come, shaped.
		c.renameLog(id, result)
		_, rest = came.Compare(tools.OnlyEnd(tools.SplitEnd(result)))
		c.in.Said.Rest = &rest
		return result, nil
	}
	switch compared {
	case tracker.Same:
		c.in.Said.Rest = &[]mcp.ContentBlock{}
	case tracker.Excerpt:
		c.in.Said.Rest = &[]mcp.ContentBlock{}
		c.in.Said.Truncated = true
	case tracker.ResultAdds:
		c.in.Said.Rest = &rest
	case tracker.ResultEmpty:
		if result.Content = came.Came(); result.Content == nil {
			c.in.Said.Truncated = true // the log has it
		}
		c.in.Said.Rest = &[]mcp.ContentBlock{}
	}
	return result, nil
}

// readResult reads a result, whose members and values stay as they are written.
func readResult(raw json.RawMessage) (*mcp.CallToolResult, error) {
	if !rawjson.IsObject(raw) {
		return nil, errors.New("it is not an object")
	}
	result := &mcp.CallToolResult{}
	for it := rawjson.Over(raw); it.Next(); {
		switch name := string(it.Name); name {
		case "content":
			for items := rawjson.Over(it.Value); items.Next(); {
				item, ok := mcp.Received(items.Value)
				if !ok {
					return nil, fmt.Errorf("content[%d] is not an object", len(result.Content))
				}
				result.Content = append(result.Content, item)
			}
		case "structuredContent":
			result.StructuredContent = it.Value
		case "isError":
			result.IsError = string(it.Value) == "true"
		case "_meta":
			for meta := rawjson.Over(it.Value); meta.Next(); {
				key := string(meta.Name)
				// it is about the server's task and connection.
				if slices.Contains(ownMeta, key) || key == mcp.MetaServerInfo {
					continue
				}
				if result.Meta == nil {
					result.Meta = map[string]any{}
				}
				result.Meta[key] = json.RawMessage(meta.Value)
			}
		case "resultType", "ttlMs", "cacheScope": // of the stateless era, and runnel's own
		default:
			if result.Others == nil {
				result.Others = json.RawMessage("{}")
			}
			result.Others = rawjson.WithMember(result.Others, name, json.RawMessage(it.Value))
		}
	}
	return result, nil
}

// theirTask returns the id of the server's task, "" if it is unknown. The task of a plain call is known only
// from a link to its log in the result.
func (c *call) theirTask(content []mcp.ContentBlock) string {
	id := c.remote.Tracker().TaskID()
	for _, item := range content {
		if id == "" && rawjson.StringMember(item, "type") == "resource_link" {
			id, _, _ = logs.ParseURI(rawjson.StringMember(item, "uri"))
		}
	}
	return id
}

// withoutLog removes the link to the log of the server's task, which nobody here can read. This task has a
// separate log.
func (c *call) withoutLog(id string, content []mcp.ContentBlock) (kept []mcp.ContentBlock) {
	uri := tasks.LogURI(id)
	for _, item := range content {
		if rawjson.StringMember(item, "type") == "resource_link" && bytes.Contains(item, []byte(uri)) {
			c.in.Said.Truncated = true
			continue
		}
		kept = append(kept, item)
	}
	return kept
}

// renameLog replaces the URI of the server's log, which nobody here can read, by that of this task's log,
// which holds the same. The files of the server's task are read there, by their URIs (logs.Others).
func (c *call) renameLog(id string, result *mcp.CallToolResult) {
	if id == "" {
		return
	}
	rename := func(text *json.RawMessage) {
		if bytes.Contains(*text, []byte(tasks.LogURI(id))) {
			*text = bytes.ReplaceAll(*text, []byte(id), []byte(c.in.TaskID))
			c.in.Said.Truncated = true
		}
	}
	for i := range result.Content {
		if uri := rawjson.StringMember(result.Content[i], "uri"); !strings.HasPrefix(uri, tasks.FileURI(id, "")) {
			rename(&result.Content[i])
		}
	}
	rename(&result.StructuredContent)
}

// callError returns the error of a call that got no result: that of the server as it is.
func (c *call) callError(err error) error {
	if errors.Is(err, tools.ErrCannotAsk) || errors.Is(err, tasks.ErrEnded) {
		return err
	}
	if wire, ok := errors.AsType[*rpc.Error](err); ok {
		return run.HideError(c.secrets.Set(), wire)
	}
	return c.failure(err)
}
