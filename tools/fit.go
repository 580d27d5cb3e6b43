package tools

import (
	"fmt"

	"runnel/rpc/mcp"
	"runnel/tools/text"
)

// fit makes a result's content fit into a line: the longest texts lose their middle, and an item that is
// too large in itself is named instead.
func fit(result *mcp.CallToolResult) *mcp.CallToolResult { return fitInto(result, mcp.MaxContent) }

func fitInto(result *mcp.CallToolResult, limit int) *mcp.CallToolResult {
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
			fitted.Content = append(fitted.Content, mcp.Text(fmt.Sprintf("[%d more items are left out]", len(result.Content)-i)))
			break
		}
		if share := max(left/(len(result.Content)-i), minShare); len(c) > share {
			c = shorten(c, share)
		}
		left -= len(c)
		fitted.Content = append(fitted.Content, c)
	}
	return &fitted
}

// minShare is what an item gets at least: room for a text that says what is left out.
const minShare = 1 << 10

// shorten makes an item of at most limit bytes of another one, as far as it is text.
func shorten(c mcp.ContentBlock, limit int) mcp.ContentBlock {
	t, ok := mcp.TextOf(c)
	if !ok {
		return mcp.Text(fmt.Sprintf("[%s of %d bytes: too large for a result]", mcp.ContentType(c), len(c)))
	}
	return mcp.Text(text.Short(t, limit-len(`{"type":"text","text":""}`)))
}
