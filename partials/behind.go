package partials

import (
	"context"
	"slices"
	"time"
)

const (
	// farBehind is how far a reader may be behind before Append waits for it, short of what memory keeps; nearEnd, for how long.
	farBehind = backedRetain - 2*maxBlock
	nearEnd   = farBehind / 2
	// patience is how long Append waits for readers to come from one to the other: it holds no tool below some 3 MiB/s.
	patience = 20 * time.Millisecond
)

// awaitReaders lets readers that keep up stay in memory. A tool is mostly faster than its reader, which must encode and write
// what the tool only appends. A reader that has to read from the backing needs half as long again, and never catches up.
// A slow reader is left behind. l.mu is held before and after, and not meanwhile.
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

// behind tells whether a reader that is not slow is further behind than that. l.mu is held.
func (l *Log) behind(far int64) bool {
	return slices.ContainsFunc(l.readers, func(r *Reader) bool {
		r.slow = r.slow && l.end-r.pos > nearEnd
		return !r.slow && l.end-r.pos > far
	})
}

// loses tells whether a reader is so far behind that the backing is about to leave out what it has not read: of a log with a
// limit the middle goes. Append waits for it then, however slow it is. l.mu is held.
func (l *Log) loses() bool {
	far := max(l.limit/4, dueBytes) // the backing keeps more than that of the end
	return l.backing != nil && l.limit > 0 && slices.ContainsFunc(l.readers, func(r *Reader) bool { return l.end-r.pos > far })
}
