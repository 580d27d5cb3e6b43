package partials

import (
	"context"
	"slices"
	"time"
)

// Append waits for the readers of a log with a backing, too:
//
//   - for a moment, for one that keeps up (awaitReaders), so that it finds in memory what comes next;
//   - for one that would miss what the backing is about to leave out (loses), however slow it is.

const (
	// farBehind is how far behind a reader may be before Append waits for it: a little less than what memory keeps.
	farBehind = backedRetain - 2*maxBlock
	// nearEnd is how far behind it may be when Append goes on.
	nearEnd = farBehind / 2
	// patience is how long Append waits for readers to come from one to the other: it holds no tool below some 3 MiB/s.
	patience = 20 * time.Millisecond
)

// awaitReaders lets readers that keep up stay in memory. A tool is mostly faster than its reader, which must encode and write
// what the tool only appends. A reader that has to read from the backing needs half as long again, and never catches up. One that is not
// near the end when patience is over is slow, and left behind until it is near. l.mu is held before and after, and not while it waits.
func (l *Log) awaitReaders(ctx context.Context) {
	if l.backing == nil || !l.behind(farBehind) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for l.behind(nearEnd) && !l.closed && l.failed == nil {
		if !l.awaitRoom(ctx.Done()) {
			for _, r := range l.readers {
				r.slow = r.slow || l.end-r.pos > nearEnd
			}
			return
		}
	}
}

// behind reports whether a reader that keeps up is further behind than far. A slow one that has come near the end keeps up again. l.mu is held.
func (l *Log) behind(far int64) bool {
	return slices.ContainsFunc(l.readers, func(r *Reader) bool {
		r.slow = r.slow && l.end-r.pos > nearEnd
		return !r.slow && l.end-r.pos > far
	})
}

// loses reports whether a reader is so far behind that the backing is about to leave out what it has not read: of a log with a
// limit the middle goes. Append waits for it then, however slow it is. l.mu is held.
func (l *Log) loses() bool {
	far := max(l.limit/4, dueBytes) // the backing keeps more than that of the end
	return l.backing != nil && l.limit > 0 && slices.ContainsFunc(l.readers, func(r *Reader) bool { return l.end-r.pos > far })
}
