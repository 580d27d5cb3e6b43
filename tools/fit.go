package tools

import (
	"fmt"

	"runnel/internal/shorten"
	"runnel/rpc/mcp"
	"runnel/tools/text"
)

// fit makes a result's content fit on a line: the longest texts lose their middle, and an item that is too large by itself is replaced by a
// note.
func fit(result *mcp.CallToolResult) *mcp.CallToolResult {
	const limit = mcp.MaxContent
	if result.Size() <= limit {
		return result
	}
	fitted := *result
	fitted.Content = nil
	if n := len(result.StructuredContent); n > limit/2 {
		fitted.StructuredContent = nil
		fitted.Content = append(fitted.Content, mcp.Text(fmt.Sprintf("[structured content of %d bytes: too large for a result]", n)))
	}
	left := limit - len(fitted.StructuredContent)
	for i, c := range result.Content {
		if left < 2*minShare {
			fitted.Content = append(fitted.Content, mcp.Text(shorten.LeftOut(int64(len(result.Content)-i), "items", "")))
			break
		}
		if share := max(left/(len(result.Content)-i), minShare); len(c) > share {
			c = fitItem(c, share)
		}
		left -= len(c)
		fitted.Content = append(fitted.Content, c)
	}
	return &fitted
}

// minShare is the least that an item gets: room for a text that says what is left out.
const minShare = 1 << 10

// fitItem returns an item of at most limit bytes in place of a larger one: a shorter text, or a note about what is not text.
func fitItem(c mcp.ContentBlock, limit int) mcp.ContentBlock {
	t, ok := mcp.TextOf(c)
	if !ok {
		return mcp.Text(fmt.Sprintf("[%s of %d bytes: too large for a result]", mcp.ContentType(c), len(c)))
	}
	return mcp.Text(text.Short(t, limit-len(`{"type":"text","text":""}`)))
}
