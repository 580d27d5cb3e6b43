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

// result is the server's result as this call's.
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
		// Another runnel's command: the result shapes what has come.
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

// theirTask is the id of the server's task, "" if there is none. That of a plain call is known only where its result links to its log.
func (c *call) theirTask(content []mcp.ContentBlock) string {
	id := c.remote.Tracker().TaskID()
	for _, item := range content {
		if id == "" && mcp.ContentType(item) == "resource_link" {
			id, _, _ = logs.ParseURI(rawjson.StringMember(item, "uri"))
		}
	}
	return id
}

// withoutLog leaves out the link to the log of the server's task, which nobody here can read: this task has its own.
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

// renameLog puts the log of this task in the place of that of the server's task, which nobody here can read, where a result names it. Both
// hold the same.
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

// callError is what the call says that got no result.
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

// lacks is the error for the client that lacks a capability which the server requires: it declares to the server what the client does.
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

// ownCode reports whether an error is about runnel's request and not about what its client asked for, or has a code that a server may not
// give of its own: those from -32020 to -32099 mean what the specification says only, and -32002 nothing any more (2026-07-28 basic,
// "Error Codes").
func ownCode(code int) bool {
	switch code {
	case mcp.CodeParseError, mcp.CodeInvalidRequest, mcp.CodeMethodNotFound, mcp.CodeResourceNotFound:
		return true
	}
	return -32099 <= code && code <= -32020
}
