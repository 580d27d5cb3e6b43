package tools

import (
	"fmt"
	"strings"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// SilentEnd returns the text for a command that succeeded and printed nothing: to hosts and models, an empty
// text looks as if something were missing.
func SilentEnd(exitCode int) string { return fmt.Sprintf("no output, exit code %d", exitCode) }

// StreamText returns a text item whose _meta names its stream.
func StreamText(t, stream string) mcp.ContentBlock {
	return rawjson.Encode(mcp.TextContent{Type: "text", Text: t,
		Meta: map[string]any{mcp.MetaStream: stream}})
}

// SplitEnd returns the content of a result. The line that says how a command ended, if there is one, becomes
// a separate last item, because it is not output.
func SplitEnd(r *mcp.CallToolResult) []mcp.ContentBlock {
	exitCode, command := r.Command()
	if !command || len(r.Content) == 0 || len(OnlyEnd(r.Content)) > 0 {
		return r.Content
	}
	output, ok := mcp.TextOf(r.Content[0])
	if !ok || !r.IsError && output != SilentEnd(exitCode) {
		return r.Content
	}
	begin := strings.LastIndexByte(output, '\n') + 1
	var split []mcp.ContentBlock
	if begin > 0 {
		split = append(split, mcp.Text(output[:begin]))
	}
	split = append(split, r.Content[1:]...)
	return append(split, StreamText(output[begin:], mcp.StreamEnd))
}

// SplitFiles returns the content of a command's result without the items about files that it has made, and
// those. A command's output is text.
func SplitFiles(content []mcp.ContentBlock) (rest, made []mcp.ContentBlock) {
	for _, item := range content {
		if _, isText := mcp.TextOf(item); !isText || mcp.IsAboutFiles(item) {
			made = append(made, item)
		} else {
			rest = append(rest, item)
		}
	}
	return rest, made
}

// OnlyEnd returns the items of content that say how a command ended.
func OnlyEnd(content []mcp.ContentBlock) (end []mcp.ContentBlock) {
	for _, item := range content {
		if mcp.IsEnd(item) {
			end = append(end, item)
		}
	}
	return end
}
