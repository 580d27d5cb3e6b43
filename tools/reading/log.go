package reading

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"runnel/internal/shorten"
	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tools/text"
)

// logPiece is how much of a log is read at a time.
const logPiece = 64 << 10

// shapeLog writes what the log of a task has from a position on, and returns where that ends.
func shapeLog(ctx context.Context, to text.Sink, t *tasks.Task, from int64) (next int64, err error) {
	for next = from; next < t.Log.Size() && !to.Full(); {
		if ctx.Err() != nil { // writing a piece may take long: a filter matches its lines
			return next, context.Cause(ctx)
		}
		batch, end, err := t.Log.ReadAt(ctx, next, logPiece)
		if err != nil {
			return next, err
		}
		if gone := batch.Start - next; gone > 0 && batch.End > batch.Start {
			if words := partials.LostWords(gone); words != "" {
				to.Insert(words, gone)
			} else {
				to.Skip(gone)
			}
		}
		for _, c := range batch.Chunks() {
			size := int64(len(c.Data))
			if c.Kind == partials.Text {
				for data := c.Data; len(data) > 0; {
					plain, rest := text.CutColor(data)
					_, _ = to.Write(plain) // never fails
					to.Skip(int64(len(data) - len(plain) - len(rest)))
					data = rest
				}
			} else if item, ok := mcp.TextOf(c.Data); ok {
				_, _ = to.Write([]byte(item))
				to.Skip(size - int64(len(item)))
			} else {
				to.Insert("["+rawjson.StringMember(c.Data, "type")+"]", size)
			}
		}
		if end <= next {
			break
		}
		next = end
	}
	return next, nil
}

// writeEnding writes the text that the result of a task has beyond the output, and returns the rest of the
// result. For a command, that is in the line about its end.
func writeEnding(to text.Sink, t *tasks.Task) (rest []mcp.ContentBlock) {
	result := t.Outcome.Result
	if result == nil {
		to.Insert(t.Outcome.Err.Message, 0)
		return nil
	}
	beyond := result.Content
	if ending := t.Segments.Ending(); ending != nil {
		beyond = ending.Rest
	}
	for _, c := range beyond {
		if said, ok := mcp.TextOf(c); ok && said != "" && !mcp.IsEnd(c) {
			to.Insert(said, 0)
		}
	}
	structured := result.StructuredContent
	for _, c := range result.Content {
		said, ok := mcp.TextOf(c)
		switch {
		case !ok && !bytes.Contains(c, []byte(tasks.LogURI(t.ID))): // this tool reads its log
			rest = append(rest, c)
		case rawjson.Same(json.RawMessage(said), structured):
			structured = nil
		}
	}
	if _, command := result.Command(); structured != nil && !command { // a command's repeats its output
		rest = append(rest, mcp.Text(string(structured)))
	}
	return rest
}

// Found returns what the tool has found in its output since an earlier time, a line for each match.
func Found(now, before tasks.Matches, most int) string {
	news := now.News(before)
	if len(news) <= most/2 {
		return news
	}
	return shorten.Cut(news, most/2) + "…\n"
}

// LeftOut returns the words for what is left out of a task's output: how much, and how to read it. poller is
// the name of get_task_result in the reader's list, "" if it is not there.
func LeftOut(poller, taskID string) func(text.Gap) string {
	return func(g text.Gap) string {
		return shorten.LeftOut(g.Bytes, "bytes", howToRead(poller, taskID, g.After))
	}
}

// howToRead says how to read a task's output from a position on.
func howToRead(poller, taskID string, after int64) string {
	how := fmt.Sprintf("read %s?after=%d", tasks.LogURI(taskID), after)
	if poller != "" {
		how = fmt.Sprintf("call %s with {\"task_id\": %q, \"after\": %d} (tail and grep pick lines), or ",
			poller, taskID, after) + how
	}
	return how
}

// IsError reports whether the result of a task that has ended is an error.
func IsError(t *tasks.Task) bool {
	return t.Status != mcp.TaskCompleted || t.Outcome.Result != nil && t.Outcome.Result.IsError
}

// HowEnded returns the status of a task that has ended, with a command's exit.
func HowEnded(t *tasks.Task) string {
	how := string(t.Status)
	if t.Outcome == nil || t.Outcome.Result == nil {
		return how
	}
	exitCode, command := t.Outcome.Result.Command()
	switch {
	case !command:
		return how
	case t.Outcome.Result.IsError:
		verdict, _, _ := strings.Cut(t.StatusMessage, "\n")
		return how + ", " + verdict
	default:
		return fmt.Sprintf("%s, exit code %d", how, exitCode)
	}
}
