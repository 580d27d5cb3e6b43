package tasks

import (
	"bytes"
	"context"
	"errors"

	"runnel/partials"
)

// Newer is what a state has stored about a task that another process runs.
// A state makes one in Watch, for Task.Update.
type Newer struct {
	Task
	Ending *partials.Ending // how its output ended; nil if it has not
	End    int64            // where its log ends
	Output partials.Backing // reads what is stored of its log
	// Ends returns where its segments after number n end, up to End; segment n ends at position last. It
	// fails with partials.ErrEnds if they are damaged.
	Ends func(ctx context.Context, n int, last int64) ([]int64, error)
}

// lookBytes is how much new output a followed log takes into memory at once: as much as it keeps.
const lookBytes = 256 << 10

// Update brings a followed task up to date, with its log and its segments, and reports whether there is
// anything new for its followers. A state calls it in Watch.
func (t *Task) Update(ctx context.Context, now Newer) (bool, error) {
	n, last := t.Segments.Numbered()
	grows := now.End > t.Log.Size()
	// A state may store numbers a moment later than their output.
	owed := (now.Merge || now.Detached) && last < now.End
	var tail []partials.Extent
	var ends []int64
	var err error
	if grows && t.Log.Follows(now.End) {
		// The first extent may begin earlier.
		if tail, err = now.Output.Load(ctx, max(t.Log.Size(), now.End-lookBytes), 2*lookBytes); err != nil {
			return false, err
		}
		for n := len(tail); n > 0 && tail[n-1].End() > now.End; n-- {
			tail = tail[:n-1] // written since then
		}
	}
	if grows || owed {
		if ends, err = now.Ends(ctx, n, last); errors.Is(err, partials.ErrEnds) {
			now.Ending = now.FailDamaged(err)
		} else if err != nil {
			return false, err
		}
		if err := t.Segments.Grow(now.End, tail, ends); err != nil {
			return false, err
		}
	}
	if now.Ending != nil {
		t.Segments.Finish(*now.Ending)
	}
	changed := grows || len(ends) > 0 || t.Status != now.Status || t.StatusMessage != now.StatusMessage ||
		!bytes.Equal(t.Variables, now.Variables)
	now.Log = t.Log
	now.Segments = t.Segments
	now.Arguments = t.Arguments
	*t = now.Task
	return changed, nil
}
