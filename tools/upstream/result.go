package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"runnel/partials/tracker"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/logs"
	"runnel/tools"
)

// result converts the server's result to one of this call.
func (c *call) result(raw json.RawMessage) (*mcp.CallToolResult, error) {
	result := &mcp.CallToolResult{}
	if err := json.Unmarshal(raw, result); err != nil {
		return nil, c.failure(fmt.Errorf("its result cannot be read: %w", err))
	}
	for i, item := range result.Content {
		var ok bool
		if result.Content[i], ok = mcp.Received(item); !ok {
			return nil, c.failure(fmt.Errorf("its result cannot be read: content[%d] is not an object", i))
		}
	}
	for key := range result.Meta {
		if strings.HasPrefix(key, "io.modelcontextprotocol/") || key == mcp.MetaVariables {
			delete(result.Meta, key) // it is about the server's task, not this one
		}
	}
	came := c.remote.Tracker()
	if _, message := came.End(); result.IsError {
		c.in.Said.Status = message
	}
	compared, rest := came.Compare(result.Content)
	id := c.theirTask(result.Content)
	result.Content, rest = c.withoutLog(id, result.Content), c.withoutLog(id, rest)
	if result.Meta[mcp.MetaCommand] != nil && compared != tracker.NoneStreamed && compared != tracker.ResultEmpty && !c.remote.CutShort() {
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

// theirTask returns the id of the server's task, "" if it is unknown. The task of a plain call is known only from a link to its log in the
// result.
func (c *call) theirTask(content []mcp.ContentBlock) string {
	id := c.remote.Tracker().TaskID()
	for _, item := range content {
		if id == "" && mcp.ContentType(item) == "resource_link" {
			id, _, _ = logs.ParseURI(rawjson.StringMember(item, "uri"))
		}
	}
	return id
}

// withoutLog removes the link to the log of the server's task, which nobody here can read. This task has a separate log.
func (c *call) withoutLog(id string, content []mcp.ContentBlock) (kept []mcp.ContentBlock) {
	uri := tasks.LogURI(id)
	for _, item := range content {
		if bytes.Contains(item, []byte(uri)) && mcp.ContentType(item) == "resource_link" {
			c.in.Said.Truncated = true
			continue
		}
		kept = append(kept, item)
	}
	return kept
}

// renameLog replaces the URI of the server's log, which nobody here can read, by that of this task's log, which holds the same.
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
		rename(&result.Content[i])
	}
	rename(&result.StructuredContent)
}

// callError returns the error of a call that got no result.
func (c *call) callError(err error) error {
	var wire *rpc.Error
	switch {
	case errors.Is(err, tools.ErrCannotAsk), errors.Is(err, tasks.ErrEnded):
		return err
	case errors.As(err, &wire) && wire.Code == mcp.CodeMissingCapability && c.lacks(wire) != nil:
		return c.lacks(wire)
	case errors.As(err, &wire):
		passed := *wire
		if passed.Message = c.failure(errors.New(wire.Message)).Error(); ownCode(wire.Code) {
			passed.Code, passed.Data = mcp.CodeInternalError, nil
		}
		return &passed
	}
	return c.failure(err)
}

// lacks returns the error for a client without a capability that the server requires.
func (c *call) lacks(said *rpc.Error) error {
	required := rawjson.Member(rawjson.Encode(said.Data), "requiredCapabilities")
	switch {
	case rawjson.Member(required, "sampling") != nil:
		return c.in.Lacks("sampling/createMessage")
	case rawjson.Member(required, "roots") != nil:
		return c.in.Lacks("roots/list")
	case !c.in.CanAsk():
		return tools.ErrCannotAsk
	}
	return nil
}

// ownCode reports whether an error is about runnel's own request instead of its client's, or has a code that a server may not choose
// freely: -32020 to -32099 belong to the specification, and -32002 no longer means anything (2026-07-28 basic, "Error Codes").
func ownCode(code int) bool {
	switch code {
	case mcp.CodeParseError, mcp.CodeInvalidRequest, mcp.CodeMethodNotFound, mcp.CodeResourceNotFound:
		return true
	}
	return -32099 <= code && code <= -32020
}
