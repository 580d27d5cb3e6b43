package tools

import (
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks/feed"
)

// dressTool removes from a tool what a version does not know: "the server never sends what the negotiated
// version does not have".
func dressTool(v *mcp.Version, t mcp.Tool) mcp.Tool {
	if !v.Annotations {
		t.Annotations = nil
	}
	if !v.Titles {
		t.Title = ""
	}
	if !v.StructuredContent || !v.AnyStructured && rawjson.StringMember(t.OutputSchema, "type") != "object" {
		t.OutputSchema = nil
	}
	if !v.ContentMeta {
		t.Meta = nil
	}
	if !v.Tasks {
		t.Execution = nil
	}
	if !v.Icons {
		t.Icons = nil
	}
	return t
}

// dressResult converts a result to what a version knows; content of an unknown type becomes a text that names
// it.
func dressResult(v *mcp.Version, r *mcp.CallToolResult) *mcp.CallToolResult {
	r = r.For(v)
	if v.Audio && v.ResourceLinks {
		return r
	}
	dressed := *r
	dressed.Content = make([]mcp.ContentBlock, len(r.Content))
	for i, c := range r.Content {
		dressed.Content[i] = feed.Content(v, c)
	}
	return &dressed
}
