package tools

import (
	"encoding/json"
	"fmt"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
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
		dressed.Content[i] = DressContent(v, c)
	}
	return &dressed
}

// DressContent converts a content item to what a version knows. A tool that passes on another server's
// content needs it for items that are sent outside of its result.
func DressContent(v *mcp.Version, c mcp.ContentBlock) mcp.ContentBlock {
	if !v.ContentMeta && rawjson.Member(c, "_meta") != nil {
		c = rawjson.WithMember(c, "_meta", nil)
	}
	switch kind := rawjson.StringMember(c, "type"); {
	case kind == "audio" && !v.Audio:
		return mcp.Text("[audio: protocol version " + v.Name + " cannot carry it]")
	case kind == "resource_link" && !v.ResourceLinks:
		var link struct{ Name, URI string }
		_ = json.Unmarshal(c, &link)
		return mcp.Text(fmt.Sprintf("[%s: %s]", link.Name, link.URI))
	default:
		return c
	}
}

// dressed is a dialect that converts content to what a version knows.
type dressed struct {
	partials.Dialect
	version *mcp.Version
}

func (d dressed) Encode(dst []byte, b partials.Batch) []byte {
	chunks := b.Chunks()
	for i := range chunks {
		c := &chunks[i]
		if c.Kind == partials.Item {
			c.Data = DressContent(d.version, c.Data)
		} else if !d.version.ContentMeta {
			c.Stream = partials.Stdout // stderr is marked in _meta
		}
	}
	as := partials.NewBatch(b.Start, chunks...)
	as.Colors = b.Colors
	return d.Dialect.Encode(dst, as)
}

// dressedEnding returns what a result has beyond the output, as a version knows it.
func dressedEnding(v *mcp.Version, segments *partials.Segments) (e partials.Ending) {
	if ending := segments.Ending(); ending != nil {
		for _, item := range ending.Rest {
			e.Rest = append(e.Rest, DressContent(v, item))
		}
	}
	return e
}
