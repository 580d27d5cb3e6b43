package tasks

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"runnel/partials"
	"runnel/rpc/mcp"
)

// goneOutput is how much of the output, its end, the result of a task shows that was cut off.
const goneOutput = mcp.MaxText

// Remains is the end of a log as content: of a task that was cut off, and has no result of its own. What is left out is told, also to
// somebody who has seen the output come, up to where it was cut off.
func Remains(ctx context.Context, log *partials.Log) (content []mcp.ContentBlock) {
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			content = append(content, mcp.Text(text.String()))
			text.Reset()
		}
	}
	end, shown := log.Size(), int64(0)
	for pos := max(end-goneOutput, 0); pos < end; {
		b, next, err := log.ReadAt(ctx, pos, goneOutput)
		if err != nil || next <= pos {
			break // the part that can be read is shown
		}
		if left := b.Start - shown; left > 0 {
			which := ""
			if shown == 0 {
				which = "the first "
			}
			fmt.Fprintf(&text, "[%s%d bytes of output are left out here]\n", which, left)
		}
		shown = next
		for _, c := range b.Chunks() {
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

// tailBytes is how much of the end of the output a last line is looked for in.
const tailBytes = 4 << 10

// LastLine is the last line of a task's output that is not blank, as far as its end shows it.
func (t *Task) LastLine(ctx context.Context) string {
	var line string
	for pos := max(t.Log.Size()-tailBytes, 0); pos < t.Log.Size(); {
		b, next, err := t.Log.ReadAt(ctx, pos, tailBytes)
		if err != nil || next <= pos {
			break
		}
		if last := b.LastLine(); last != "" {
			line = last
		}
		pos = next
	}
	return line
}
