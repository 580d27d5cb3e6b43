package tasks

import (
	"bytes"
	"context"
	"errors"

	"runnel/partials"
)

// Newer is a task that another process runs as a state finds it now, for State.Watch.
type Newer struct {
	Task
	Ending *partials.Ending // how its output has ended, nil if it has not
	End    int64            // where its log ends
	Output partials.Backing // what is stored of its log
	// Ends returns where its segments after number n end, up to End; that one ends at position last. It fails with partials.ErrEnds if
	// they are damaged.
	Ends func(ctx context.Context, n int, last int64) ([]int64, error)
}

// lookBytes is how much new output a follower takes into memory at once: as much as the log keeps there.
const lookBytes = 256 << 10

// Update brings a task that is followed up to date, its log and its segments with it. It reports whether there is anything new of which
// followers hear.
func (t *Task) Update(ctx context.Context, now Newer) (bool, error) {
	grows := now.End > t.Log.Size()
	if grows {
		tail, err := now.Output.Load(ctx, max(t.Log.Size(), now.End-lookBytes), 2*lookBytes) // the first stretch may begin before
		if err != nil {
			return false, err
		}
		for n := len(tail); n > 0 && tail[n-1].End() > now.End; n-- {
			tail = tail[:n-1] // written since
		}
		n, last := t.Segments.Numbered()
		ends, err := now.Ends(ctx, n, last)
		if errors.Is(err, partials.ErrEnds) {
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
	changed := grows || t.Status != now.Status || t.StatusMessage != now.StatusMessage || !bytes.Equal(t.Variables, now.Variables)
	now.Log, now.Segments, now.Arguments = t.Log, t.Segments, t.Arguments
	*t = now.Task
	return changed, nil
}
