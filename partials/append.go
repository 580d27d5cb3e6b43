package partials

import (
	"context"
	"slices"
)

// Append adds the chunks of one write, copying their data. It waits while the slowest reader, or the backing
// if there is one, lags too far, and fails with the cause of ctx if that ends first. The chunks stay
// together, and calls stay in order.
func (l *Log) Append(ctx context.Context, chunks ...Chunk) error {
	size := int64(0)
	for i := range chunks {
		size += costOf(len(chunks[i].Data))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.admit(ctx, size); err != nil {
		return err
	}
	l.write(chunks)
	l.share(!l.closed && l.backing == nil && l.cost >= backedRetain)
	l.trim()
	l.announceDue()
	l.wakeReaders()
	return nil
}

// admit waits until size more bytes may be appended. l.mu is held before and after, but not while it waits.
func (l *Log) admit(ctx context.Context, size int64) error {
	for {
		switch {
		case l.closed || l.followed:
			return errClosed
		case l.failed != nil:
			return l.failed
		case l.spill != nil && l.backing == nil && l.cost+size >= l.retention():
			l.spillNow()
		case l.hasRoom(size):
			return nil
		case !l.awaitRoom(ctx):
			return context.Cause(ctx)
		}
	}
}

// hasRoom reports whether size more bytes may be appended without anyone lagging too far. A write larger than
// maxPending waits until everything has been read. l.mu is held.
func (l *Log) hasRoom(size int64) bool {
	pending := l.pending()
	return !l.spilling && (pending == 0 || pending+size <= l.maxPending) && !l.wouldLose()
}

// spillNow calls spill. l.mu is held before and after, but not during the call.
func (l *Log) spillNow() {
	spill := l.spill
	l.spill, l.spilling = nil, true
	l.mu.Unlock()
	spill()
	l.mu.Lock()
	l.spilling = false
	l.wakeAppends()
}

// wouldLose reports whether a reader lags so far that the backing is about to discard output that it has not
// read: a log with a limit loses its middle. Append then waits for that reader, however slow it is. l.mu is
// held.
func (l *Log) wouldLose() bool {
	far := max(l.limit/4, dueBytes) // the backing keeps more of the end than this
	return l.backing != nil && l.limit > 0 && slices.ContainsFunc(l.readers, func(r *cursor) bool { return l.end-r.pos > far })
}
