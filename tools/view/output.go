package view

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	_ "image/gif"  // pictures that are shown
	_ "image/jpeg" // another kind of them
	_ "image/png"  // and another
	"io"
	"math"
	"time"

	_ "golang.org/x/image/webp" // the last one

	"runnel/partials"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/files"
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

const (
	// maxFiles is how many files of a task the page lists.
	maxFiles = 200
	// maxPictures is how many of them it shows as pictures, each of at most maxPicture bytes and maxPixels: a
	// file of a few KiB may have more of them than a browser can hold.
	maxPictures = 12
	maxPicture  = 4 << 20
	maxPixels   = 16 << 20
	// pictureHead is how much of a file is read to learn its size in pixels, in bytes: metadata may come
	// first.
	pictureHead = 256 << 10
)

// shownFile is a file that a task has made.
type shownFile struct {
	Name     string `json:"name"`
	MIMEType string `json:"mimeType"`
	Size     int64  `json:"size"`
	URI      string `json:"uri"`
	// Width and Height are those of a picture that the page shows, in pixels; 0 = it shows a link.
	Width  int `json:"width,omitempty"`
	Height int `json:"height,omitempty"`
}

// files implements view_files.
func (v *view) files(ctx context.Context, _ *tools.Call, p taskParams) (any, error) {
	answer := struct {
		Files []shownFile `json:"files"`
		More  int         `json:"more,omitempty"` // files that are not listed
	}{Files: []shownFile{}}
	set, err := v.runner.Files(ctx, p.TaskID)
	if errors.Is(err, tasks.ErrNotFound) { // it has made none
		return answer, nil
	} else if err != nil {
		return nil, err
	}
	pictures := 0
	for n, f := range set.Files {
		if n == maxFiles {
			answer.More = len(set.Files) - n
			break
		}
		shown := shownFile{Name: f.Name, MIMEType: f.MIMEType, Size: f.Size,
			URI: tasks.FileURI(p.TaskID, f.Name)}
		if pictures < maxPictures {
			if shown.Width, shown.Height = pictureSize(ctx, set, f); shown.Width > 0 {
				pictures++
			}
		}
		answer.Files = append(answer.Files, shown)
	}
	return answer, nil
}

// pictureSize returns the size of a picture that every browser can show, 0 for other files.
func pictureSize(ctx context.Context, set *files.Set, f files.File) (width, height int) {
	switch f.MIMEType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
	default:
		return 0, 0
	}
	if f.Size > maxPicture {
		return 0, 0
	}
	size, _, err := image.DecodeConfig(io.LimitReader(set.Reader(ctx, f), pictureHead))
	if err != nil || size.Width <= 0 || size.Height <= 0 || size.Width > maxPixels/size.Height {
		return 0, 0
	}
	return size.Width, size.Height
}
