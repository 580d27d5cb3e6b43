package mcp

import (
	"encoding/json"
	"slices"
)

// Tool describes one tool in a tools/list result.
type Tool struct {
	Name         string           `json:"name"`
	Title        string           `json:"title,omitempty"` // since 2025-06-18
	Description  string           `json:"description,omitempty"`
	InputSchema  json.RawMessage  `json:"inputSchema"`
	OutputSchema json.RawMessage  `json:"outputSchema,omitempty"` // since 2025-06-18
	Annotations  *ToolAnnotations `json:"annotations,omitempty"`  // since 2025-03-26
	Execution    *ToolExecution   `json:"execution,omitempty"`    // since 2025-11-25
	Icons        json.RawMessage  `json:"icons,omitempty"`        // likewise
	Meta         json.RawMessage  `json:"_meta,omitempty"`        // since 2025-06-18

	Raw json.RawMessage `json:"-"` // the entry as another server wrote it; nil = this one describes it
}

// ToolAnnotations are hints about a tool; nil = the schema's default.
type ToolAnnotations struct {
	Title           string `json:"title,omitempty" yaml:"title"`
	ReadOnlyHint    *bool  `json:"readOnlyHint,omitempty" yaml:"readOnlyHint"`
	DestructiveHint *bool  `json:"destructiveHint,omitempty" yaml:"destructiveHint"`
	IdempotentHint  *bool  `json:"idempotentHint,omitempty" yaml:"idempotentHint"`
	OpenWorldHint   *bool  `json:"openWorldHint,omitempty" yaml:"openWorldHint"`
}

// ToolExecution says how a tool may be called (2025-11-25) and that it streams (SEP-2679, 3).
type ToolExecution struct {
	TaskSupport   TaskSupport `json:"taskSupport,omitempty"`
	StreamPartial bool        `json:"streamPartial,omitempty"`
}

// TaskSupport is how a tool may be called: with a task, without one, or both.
type TaskSupport string

// The levels of task support; a tool that says nothing forbids tasks.
const (
	TaskRequired  TaskSupport = "required"
	TaskOptional  TaskSupport = "optional"
	TaskForbidden TaskSupport = "forbidden"
)

// ListToolsResult answers "tools/list".
type ListToolsResult struct {
	Tools      []Tool `json:"tools"`
	NextCursor string `json:"nextCursor,omitempty"`
}

// CallToolParams are the params of "tools/call".
type CallToolParams struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Task      *TaskMetadata   `json:"task,omitempty"` // 2025-11-25 only

	// InputResponses and RequestState are of 2026-07-28.
	InputResponses map[string]json.RawMessage `json:"inputResponses,omitempty"`
	RequestState   string                     `json:"requestState,omitempty"`

	Raw json.RawMessage `json:"-"` // the params as they were written
}

// CallToolResult is what a tool returns. IsError marks an error that the model should see and may correct.
type CallToolResult struct {
	Content []ContentBlock `json:"content"`
	// StructuredContent is there since 2025-06-18; it is an object before 2026-07-28.
	StructuredContent json.RawMessage `json:"structuredContent,omitempty"`
	IsError           bool            `json:"isError,omitempty"`
	// Meta has values of type json.RawMessage if it was decoded.
	Meta map[string]any `json:"_meta,omitempty"`
	// Others is an object with the members of another server's result that are none of these; nil = none.
	Others json.RawMessage `json:"-"`
}

// Size is roughly the length of the result on the wire without its _meta, in bytes.
func (r *CallToolResult) Size() int {
	n := len(r.StructuredContent) + len(r.Others)
	for _, c := range r.Content {
		n += len(c)
	}
	return n
}

// For returns the result without structured content that a version cannot hold. If there is nothing else in
// the result, it becomes text: "a tool that returns structured content SHOULD also return the serialized JSON
// in a TextContent block" (server/tools).
func (r *CallToolResult) For(v *Version) *CallToolResult {
	if len(r.StructuredContent) == 0 ||
		v.StructuredContent && (v.AnyStructured || r.StructuredContent[0] == '{') {
		return r
	}
	plain := *r
	plain.StructuredContent = nil
	if len(r.Content) == 0 {
		plain.Content = []ContentBlock{Text(string(r.StructuredContent))}
	}
	return &plain
}

// Result makes a tool's result that is plain text.
func Result(text string) *CallToolResult {
	return &CallToolResult{Content: []ContentBlock{Text(text)}}
}

// ErrorResult makes a tool's result that tells the model what went wrong.
func ErrorResult(text string) *CallToolResult {
	return &CallToolResult{Content: []ContentBlock{Text(text)}, IsError: true}
}

// MCP Apps (SEP-1865, specification 2026-01-26): a tool names a page that its client shows beside a call, and
// the page calls tools.
const (
	// ExtensionUI is the extension that a client declares if it shows pages.
	ExtensionUI = "io.modelcontextprotocol/ui"
	// AppType is the media type of such a page.
	AppType = "text/html;profile=mcp-app"
)

// ShowsApps reports whether the client shows pages of AppType ("mimeTypes: Array of supported content types
// (REQUIRED)").
func (c *ClientCapabilities) ShowsApps() bool {
	settings, _ := c.Extensions[ExtensionUI].(map[string]any)
	types, _ := settings["mimeTypes"].([]any)
	return slices.Contains(types, any(AppType))
}
