package tools

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"runnel/rpc"
	"runnel/rpc/mcp"
)

// A list counts all that a tool says of itself: each page stays below what clients read in a line.
func TestListHasPages(t *testing.T) {
	large := json.RawMessage(`{"x":"` + strings.Repeat("x", listPage*2/3) + `"}`)
	r := &Registry{}
	for name, change := range map[string]func(*mcp.Tool){
		"title":       func(tool *mcp.Tool) { tool.Title = string(large) },
		"annotations": func(tool *mcp.Tool) { tool.Annotations = &mcp.ToolAnnotations{Title: string(large)} },
		"icons":       func(tool *mcp.Tool) { tool.Icons = large },
		"meta":        func(tool *mcp.Tool) { tool.Meta = large },
	} {
		f := Func(name, "", func(context.Context, struct{}, *Output) (*mcp.CallToolResult, error) { return nil, nil })
		change(&f.Tool)
		if err := r.Add(f); err != nil {
			t.Fatal(err)
		}
	}
	caller := &rpc.Caller{Version: mcp.NewestHandshake()}
	cursor := ""
	for i := range 4 {
		page, err := r.list(caller, cursor)
		if cursor = page.NextCursor; err != nil || len(page.Tools) != 1 || (cursor == "") != (i == 3) {
			t.Fatalf("page %d has %d tools, next %q, error %v", i, len(page.Tools), cursor, err)
		}
	}
}
