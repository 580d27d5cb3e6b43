package tasks

import (
	"bytes"
	"encoding/json"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tools/secrets"
)

// Secrets are what the run must not show, as they were when it began; nil = nothing.
func (r *Run) Secrets() *secrets.Set { return r.secrets }

// Secrets are what a run that began now must not show; nil = nothing.
func (r *Runner) Secrets() *secrets.Set { return r.o.Secrets.Set() }

// hide masks what work has come to. What it wrote to the log was masked before it came there.
func (d *Done) hide(s *secrets.Set) {
	if s == nil {
		return
	}
	d.Status, d.Result = s.String(d.Status), HideResult(s, d.Result)
	if d.Rest != nil {
		d.Rest = new(HideContent(s, *d.Rest))
	}
}

// HideResult is a result without secrets.
func HideResult(s *secrets.Set, result *mcp.CallToolResult) *mcp.CallToolResult {
	if s == nil || result == nil {
		return result
	}
	masked := *result
	masked.Content = HideContent(s, result.Content)
	masked.StructuredContent = s.JSON(result.StructuredContent)
	if meta := rawjson.Encode(result.Meta); !bytes.Equal(s.JSON(meta), meta) {
		masked.Meta = nil
		_ = json.Unmarshal(s.JSON(meta), &masked.Meta) // an object stays one
	}
	return &masked
}

// HideContent is content without secrets. Each item is masked by itself.
func HideContent(s *secrets.Set, content []mcp.ContentBlock) []mcp.ContentBlock {
	if s == nil {
		return content
	}
	masked := make([]mcp.ContentBlock, len(content))
	for i, item := range content {
		masked[i] = s.JSON(item)
	}
	return masked
}

// HideError is an error without secrets.
func HideError(s *secrets.Set, e *rpc.Error) *rpc.Error {
	if s == nil || e == nil {
		return e
	}
	masked := *e
	masked.Message = s.String(e.Message)
	if e.Data != nil {
		masked.Data = s.JSON(rawjson.Encode(e.Data))
	}
	return &masked
}
