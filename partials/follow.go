package partials

// Stored makes a log of what a backing keeps, up to position end. It is closed, so nothing can be appended.
// A state uses it for a task that has ended.
func Stored(b Backing, end int64) *Log {
	l := NewLog(nil)
	l.backing = b
	l.end = end
	l.closed = true
	l.saved.pos, l.saving.pos = end, end
	return l
}

// Follow makes a new or a Stored log one that another process writes. Segments.Grow then says how far it has
// come.
func (l *Log) Follow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = false
	l.followed = true
	l.retain = min(l.retain, backedRetain)
}

// followBytes is how far behind the readers of a followed log may be for its new output to be kept in memory.
const followBytes = backedRetain

// Follows reports whether the output of a followed log up to a new end is worth reading at once: if all its
// readers are far behind that, they read it from the backing later.
func (l *Log) Follows(end int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.readers) == 0 && l.viewed == 0 {
		return true
	}
	last := l.viewed
	for _, r := range l.readers {
		last = max(last, r.pos)
	}
	return end-last <= followBytes
}

// view notes how far a reader has read that Append does not wait for.
func (l *Log) view(pos int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.viewed = max(l.viewed, pos)
}

// grow moves the end of a followed log; Close ends it like any other. tail holds the last extents before the
// new end, for readers that have almost caught up; without them those read from the backing.
func (l *Log) grow(end int64, tail []Extent) error {
	blocks, err := decode(tail)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if end <= l.end || l.closed {
		return nil
	}
	n := len(blocks)
	if n == 0 || blocks[n-1].end() != end {
		l.blocks, blocks = nil, nil
	} else if blocks[0].start != l.end {
		l.blocks = nil // memory holds no gap
	}
	l.cost += end - l.end
	for _, b := range blocks {
		b.cost = l.cost - (end - b.end())
	}
	l.blocks = append(l.blocks, blocks...)
	l.end, l.saved = end, cursor{pos: end, cost: l.cost}
	l.trim()
	l.wakeReaders()
	return nil
}

// Resume makes a new log continue at position end. The output before that is kept by the backing that the log
// gets next (Back). A state calls it when a worker takes a task that another one has begun.
func (l *Log) Resume(end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = end
	l.saved.pos = end
	l.saving.pos = end
}
