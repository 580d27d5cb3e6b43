package view

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"runnel/partials"
	"runnel/rpc/rawjson"
	"runnel/tasks/logs"
	"runnel/tasks/run"
	"runnel/tools"
)

const (
	defaultOutput = 64 << 10
	// maxOutput is how much output one answer shows, in bytes.
	maxOutput = 256 << 10
	// maxWait is how long view_output waits for news: below the 30 s after which some hosts give up on a
	// call.
	maxWait = 20 * time.Second
)

type outputParams struct {
	TaskID   string `json:"taskId"`
	After    int64  `json:"after"`
	Before   *int64 `json:"before"`
	MaxBytes int    `json:"maxBytes"`
	WaitMs   int64  `json:"waitMs"`
}

// output implements view_output.
func (v *view) output(ctx context.Context, in *tools.Call, p outputParams) (any, error) {
	followed, release, err := v.runner.Follow(ctx, p.TaskID)
	if err != nil {
		return nil, err
	}
	defer release()
	if followed != nil && p.Before == nil && p.WaitMs > 0 {
		await(ctx, followed, p.After, time.Duration(p.WaitMs)*time.Millisecond)
	}
	// Read before the output: if the task has ended, all of its output is there.
	t, err := v.runner.Head(ctx, p.TaskID)
	if err != nil {
		return nil, err
	}
	limit := cmp.Or(p.MaxBytes, defaultOutput)
	begin, end := min(p.After, t.Log.Size()), int64(math.MaxInt64)
	if p.Before != nil {
		end = min(*p.Before, t.Log.Size())
		if begin, err = lineAt(ctx, t.Log, max(end-int64(limit), 0), end); err != nil {
			return nil, err
		}
		limit *= maxEscape // all of it fits
	}
	shown := v.show(ctx, in, &t, v.runner.Own())
	shown.Result = v.result(ctx, &t)
	answer := fmt.Appendf(nil, `{"task":%s,"text":"`, rawjson.Encode(shown))
	answer, next, err := logs.AppendText(ctx, answer, t.Log, begin, end, limit, colored)
	if err != nil {
		return nil, err
	}
	return json.RawMessage(fmt.Appendf(answer, `","start":%d,"next":%d,"bytes":%d}`, begin, next,
		t.Log.Size())), nil
}

// colored leaves the colours of the log in the text: it is for a person.
func colored(text []byte) []byte { return text }

// maxEscape is how many bytes of JSON one byte of output may take.
const maxEscape = 6

// await waits for output after a position, or for a change of the task's status, but not longer than limit.
func await(ctx context.Context, v *run.View, after int64, limit time.Duration) {
	wait, stop := context.WithTimeout(ctx, min(limit, maxWait))
	defer stop()
	changed, unwatch := v.Watch()
	defer unwatch()
	go func() {
		select {
		case <-changed:
		case <-v.Ended():
		case <-wait.Done():
		}
		stop()
	}()
	if v.Log().Grown(wait, after) != nil { // otherwise there is news
		<-wait.Done()
	}
}

// lineAt returns the position of the first line that begins after pos. If none begins before end, it returns
// where the text at pos begins.
func lineAt(ctx context.Context, log *partials.Log, pos, end int64) (int64, error) {
	if pos == 0 {
		return 0, nil
	}
	const longLine = 4 << 10
	b, _, err := log.ReadAt(ctx, pos, longLine)
	if err != nil || b.Start >= end {
		return min(pos, end), err
	}
	at := b.Start
	for _, c := range b.Chunks() {
		if i := bytes.IndexByte(c.Data, '\n'); c.Kind == partials.Text && i >= 0 && at+int64(i)+1 < end {
			return at + int64(i) + 1, nil
		}
		at += int64(len(c.Data))
	}
	return b.Start, nil
}
