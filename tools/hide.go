package tools

import (
	"slices"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
)

// hideItem appends a content item without secrets. Those that are cut between two texts are found, too: a text is a piece of the stream that
// it belongs to, and what may become a secret waits for the next one. Any other item is masked by itself, after what waits.
func (o *Output) hideItem(chunks []partials.Chunk, item mcp.ContentBlock) []partials.Chunk {
	text, ok := mcp.TextOf(item)
	w := &o.stdout
	if rawjson.StringMember(rawjson.Member(item, "_meta"), mcp.MetaStream) == mcp.StreamStderr {
		w = &o.stderr
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !ok {
		if rest := w.secrets.Flush(); len(rest) > 0 {
			chunks = append(chunks, partials.Chunk{Stream: w.stream, Data: slices.Clone(rest)})
		}
		return append(chunks, partials.Chunk{Kind: partials.Item, Data: o.secrets.JSON(item)})
	}
	settled := string(w.secrets.Write([]byte(text)))
	switch settled {
	case text:
		item = o.secrets.JSON(item) // what else it says
	case "":
		return chunks
	default:
		item = o.secrets.JSON(rawjson.WithMember(item, "text", settled))
	}
	return append(chunks, partials.Chunk{Kind: partials.Item, Data: item})
}

// hide masks what a call has come to before it is cut to what fits: half a secret would not be found. rest are the items beyond the output.
func (c *Call) hide(out *Output, result *mcp.CallToolResult) *mcp.CallToolResult {
	s := out.secrets
	if s == nil {
		return result
	}
	c.Said.Status = s.String(c.Said.Status)
	if c.Said.Rest == nil {
		if rest, some := out.beyond(result.Content); some { // by what they were when they were written
			c.Said.Rest = &rest
		}
	}
	if c.Said.Rest != nil {
		c.Said.Rest = new(tasks.HideContent(s, *c.Said.Rest))
	}
	return tasks.HideResult(s, result)
}
