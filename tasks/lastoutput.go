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

// LastOutput returns the end of a log as content, for a task that was aborted and has no result. It says how
// much is left out, even to clients that have already seen it.
func LastOutput(ctx context.Context, log *partials.Log) (content []mcp.ContentBlock) {
	var said strings.Builder
	flush := func() {
		if said.Len() > 0 {
			content = append(content, mcp.Text(said.String()))
			said.Reset()
		}
	}
	end, shown := log.Size(), int64(0)
	// if it fails, the part that could be read is shown.
	_, _ = Tail(ctx, log, max(end-maxLastOutput, 0), func(b partials.Batch) error {
		if left := b.Start - shown; left > 0 {
			said.WriteString(shorten.LeftOut(left, "bytes", "") + "\n")
		}
		shown = b.End
		for _, c := range b.Chunks() {
			if c.Kind == partials.Item {
				flush()
				content = append(content, slices.Clone(c.Data))
			} else {
				said.Write(c.Plain())
			}
		}
		return nil
	})
	flush()
	return content
}

// TailBytes is how much of the end of the output is searched for a last line.
const TailBytes = 4 << 10

// LastLine returns the last line of a task's output that is not blank, if its end shows one.
func (t *Task) LastLine(ctx context.Context) (line string) {
	_, _ = Tail(ctx, t.Log, max(t.Log.Size()-TailBytes, 0), func(b partials.Batch) error {
		line = cmp.Or(b.LastLine(), line)
		return nil
	})
	return line
}

// tailPage is how many bytes are read at a time.
const tailPage = 256 << 10

// Tail passes what a log has after a position to write, and returns where that ends.
func Tail(ctx context.Context, log *partials.Log, after int64,
	write func(partials.Batch) error) (int64, error) {
	for after < log.Size() {
		b, next, err := log.ReadAt(ctx, after, tailPage)
		if err != nil {
			return after, err
		}
		if b.End > b.Start {
			if err := write(b); err != nil {
				return after, err
			}
		}
		after = next
	}
	return after, nil
}
