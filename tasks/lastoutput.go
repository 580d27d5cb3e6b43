package tasks

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"runnel/internal/shorten"
	"runnel/partials"
	"runnel/rpc/mcp"
)

// maxLastOutput is how much of the end of its output the result of an aborted task shows.
const maxLastOutput = mcp.MaxText

// lastOutput returns the end of a log as content, for a task that was aborted and has no result. It says how
// much is left out, even to clients that have already seen it.
func lastOutput(ctx context.Context, log *partials.Log) (content []mcp.ContentBlock) {
	var said strings.Builder
	flush := func() {
		if said.Len() > 0 {
			content = append(content, mcp.Text(said.String()))
			said.Reset()
		}
	}
	end, shown := log.Size(), int64(0)
	_, _ = tail(ctx, log, max(end-maxLastOutput, 0), func(b partials.Batch) error { // if it fails, the part that could be read is shown
		if left := b.Start - shown; left > 0 {
			said.WriteString(shorten.LeftOut(left, "bytes", "") + "\n")
		}
		shown = b.End
		for _, c := range b.Chunks() {
			if c.Kind == partials.Item {
				flush()
				content = append(content, slices.Clone(c.Data))
			} else {
				said.Write(c.Data)
			}
		}
		return nil
	})
	flush()
	return content
}

// tailBytes is how much of the end of the output is searched for a last line.
const tailBytes = 4 << 10

// LastLine returns the last line of a task's output that is not blank, if its end shows one.
func (t *Task) LastLine(ctx context.Context) (line string) {
	_, _ = tail(ctx, t.Log, max(t.Log.Size()-tailBytes, 0), func(b partials.Batch) error {
		line = cmp.Or(b.LastLine(), line)
		return nil
	})
	return line
}
