package tasks

import (
	"context"
	"slices"
	"strings"

	"runnel/partials"
	"runnel/rpc/mcp"
)

// goneOutput is how much of the output, its end, the result of a task shows that was cut off.
const goneOutput = 128 << 10

// remains is the end of a log as content: of a task that was cut off, and has no result of its own.
func remains(ctx context.Context, log *partials.Log) (content []mcp.ContentBlock) {
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			content = append(content, mcp.Text(text.String()))
			text.Reset()
		}
	}
	end := log.Size()
	for pos := max(end-goneOutput, 0); pos < end; {
		b, next, err := log.ReadAt(ctx, pos, goneOutput)
		if err != nil || next <= pos {
			break // what can be read is shown
		}
		for _, c := range b.Chunks {
			if c.Kind == partials.Item {
				flush()
				content = append(content, slices.Clone(c.Data))
			} else {
				text.Write(c.Data)
			}
		}
		pos = next
	}
	flush()
	return content
}
