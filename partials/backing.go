package partials

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Backing keeps the output of one log beyond what memory holds of it. With one, Append waits for the backing
// and for no slow reader: a reader that fell behind, or came late, reads what the backing has kept. Only for one that would
// lose something by it Append waits (see Limit).
//
//	Append ─▶ Log ─ Unkept ─▶ the backing's owner writes ─ Kept ─▶ memory is let go
//	           └─ Next ─ Reader ◀─ Load ─ backing
type Backing interface {
	// Due tells that the log has output that the backing does not have; full, that Append may soon wait for it.
	// It is called under the log's lock: it must not block, nor call the log.
	Due(full bool)

	// Load returns stretches that follow each other, about limit bytes together: from the one that holds
	// position pos on, or, if what stood there is gone, from the next one behind it. None means that nothing
	// from pos on is kept.
	Load(ctx context.Context, pos int64, limit int) ([]Stretch, error)
}

// Stretch is a part of a log as a backing keeps it: whole chunks, and whole writes where they are not very long.
type Stretch struct {
	Start int64  // position of the first byte of Data
	Marks []byte // where the chunks end and what they are, as Unkept gave them
	Data  []byte
}

// End is the position behind the stretch.
func (s *Stretch) End() int64 { return s.Start + int64(len(s.Data)) }

const (
	// loadBytes is what a reader that is behind takes from the backing at once: a full partial of the default size.
	loadBytes = 64 << 10
	// backedRetain is what memory keeps of a log with a backing, so that a reader that is nearly there needs no disk.
	backedRetain = 256 << 10
	// dueBytes is when a log's backing is hurried: well before Append waits.
	dueBytes = 128 << 10
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

// loses tells whether a reader is so far behind that the backing is about to leave out what it has not read: of a log with a
// limit the middle goes. Append waits for it then, however slow it is. l.mu is held.
func (l *Log) loses() bool {
	far := max(l.limit/4, dueBytes) // the backing keeps more than that of the end
	return l.backing != nil && l.limit > 0 && slices.ContainsFunc(l.readers, func(r *Reader) bool { return l.end-r.pos > far })
}

// behind tells whether a reader that is not slow is further behind than that. l.mu is held.
func (l *Log) behind(far int64) bool {
	return slices.ContainsFunc(l.readers, func(r *Reader) bool {
		r.slow = r.slow && l.end-r.pos > nearEnd
		return !r.slow && l.end-r.pos > far
	})
}

// ErrLost refuses an append to a log whose backing has failed.
var ErrLost = errors.New("the output could not be stored")

// Back gives the log a backing, for all that memory still holds and all that comes. A log has one at a time; one that comes back
// after Unback goes on behind what it has kept. Back may be called while the log is written and read.
func (l *Log) Back(b Backing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.backing != nil {
		panic("internal error: the log has a backing")
	}
	l.backing, l.told = b, 0
	l.retain = min(l.retain, backedRetain)
	l.kept = max(l.kept, l.memory())
	l.keeper = Reader{log: l, pos: l.kept, cost: l.cost - (l.end - l.kept)}
	l.keptCost = l.keeper.cost
	l.moved()
	if l.kept < l.end {
		l.due()
	}
}

// Unback takes the log's backing away: what is in memory stays, and what the backing alone has is lost to the log.
func (l *Log) Unback() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.backing = nil
	l.moved()
}

// Backed tells whether the log has a backing.
func (l *Log) Backed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.backing != nil
}

// Stored makes a log of what a backing has kept, up to position end. It is closed: nothing can be appended.
func Stored(b Backing, end int64) *Log {
	l := NewLog(nil)
	l.backing, l.end, l.kept, l.closed = b, end, end, true
	l.keeper = Reader{log: l, pos: end}
	return l
}

// Followed makes a log of what a backing keeps while somebody else writes it. Grow tells how far it has come.
func Followed(b Backing, end int64) *Log {
	l := Stored(b, end)
	l.closed, l.followed, l.retain = false, true, backedRetain
	return l
}

// Follow makes a log that has a backing and no output yet one that somebody else writes. Grow tells how far it has come.
func (l *Log) Follow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.followed = true
}

// Grow moves the end of a followed log; Close ends it as it ends any other. tail are the last stretches before the new end, for
// readers that are nearly there; without them they read the backing.
func (l *Log) Grow(end int64, tail []Stretch) error {
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
		l.blocks = nil // what memory holds has no gap
	}
	l.cost += end - l.end
	for _, b := range blocks {
		b.cost = l.cost - (end - b.end())
	}
	l.blocks = append(l.blocks, blocks...)
	l.keptCost = l.cost
	l.end, l.kept = end, end
	l.trim()
	if wake := l.wake(); wake != nil {
		go wake(false) // Segments.Grow holds its lock
	}
	return nil
}

// memory is the position from which on memory holds the log. l.mu is held.
func (l *Log) memory() int64 {
	if len(l.blocks) == 0 {
		return l.end
	}
	return l.blocks[0].start
}

// due tells the backing that there is something for it, once until it has taken it. l.mu is held.
func (l *Log) due() {
	if l.backing == nil || l.failed != nil || l.kept == l.end {
		return
	}
	level := uint8(1)
	if l.cost-l.keptCost >= dueBytes {
		level = 2
	}
	if level > l.told {
		l.told = level
		l.backing.Due(level == 2)
	}
}

// Unkept returns the next stretch that the backing does not have, of about limit bytes. Its owner calls it until
// there is none, writes what it got, and calls Kept or, if it could not be written, Fail or Retry.
func (l *Log) Unkept(limit int) (Stretch, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.backing == nil || l.failed != nil {
		return Stretch{}, false
	}
	if s, ok := l.keeper.stretch(limit); ok {
		return s, true
	}
	b, ok := l.keeper.next(limit)
	if !ok {
		l.told = 0
		return Stretch{}, false
	}
	s := Stretch{Start: b.Start, Data: make([]byte, 0, b.End-b.Start)}
	for i := range b.Chunks {
		c := &b.Chunks[i]
		s.Data = append(s.Data, c.Data...)
		s.mark(&record{kind: c.Kind, stream: c.Stream, more: c.More, whole: c.Whole}, len(c.Data))
	}
	return s, true
}

// mark adds a chunk's length, and what it is in four bits.
func (s *Stretch) mark(r *record, size int) {
	m := uint64(size)<<4 | uint64(r.kind)&1 | uint64(r.stream)&1<<1
	if r.more {
		m |= 1 << 2
	}
	if r.whole {
		m |= 1 << 3
	}
	s.Marks = binary.AppendUvarint(s.Marks, m)
}

// Kept tells that the backing has all that Unkept returned.
func (l *Log) Kept() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept, l.keptCost = l.keeper.pos, l.keeper.cost
	l.trim()
	l.moved()
	l.due()
}

// Retry gives back what Unkept returned since Kept: it could not be written.
func (l *Log) Retry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keeper.pos, l.keeper.cost, l.told = l.kept, l.keptCost, 0
}

// Fail tells that the backing cannot keep the output. Appends fail from now on, with ErrLost and the reason.
func (l *Log) Fail(reason error) {
	l.mu.Lock()
	first := l.failed == nil
	if first {
		l.failed = fmt.Errorf("%w: %w", ErrLost, reason)
		l.moved()
	}
	failed, lost := l.failed, l.lost
	l.mu.Unlock()
	if first && lost != nil {
		lost(failed)
	}
}

// Failed is why the log's output could not be stored, nil if it could.
func (l *Log) Failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// Limit bounds what a backing keeps of the log, in bytes: the head and the tail of it, each more than a quarter.
func (l *Log) Limit(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = bytes
}

// Limits returns what Limit has set, 0 if nothing.
func (l *Log) Limits() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limit
}

// block decodes a stretch. A damaged one gives an error.
func (s *Stretch) block() (*block, error) {
	b := &block{start: s.Start, data: s.Data}
	at := uint64(0)
	for rest := s.Marks; len(rest) > 0; {
		m, n := binary.Uvarint(rest)
		if n <= 0 || m>>4 > uint64(len(s.Data))-at || len(s.Data) > math.MaxUint32 {
			return nil, errors.New("reading stored output: it is damaged")
		}
		rest = rest[n:]
		at += m >> 4
		b.records = append(b.records, record{
			end:    uint32(at),
			kind:   Kind(m & 1),
			stream: Stream(m >> 1 & 1),
			more:   m&(1<<2) != 0,
			whole:  m&(1<<3) != 0,
		})
	}
	if at != uint64(len(s.Data)) || len(s.Data) == 0 {
		return nil, errors.New("reading stored output: it is damaged")
	}
	return b, nil
}

func decode(stretches []Stretch) (blocks []*block, err error) {
	for i := range stretches {
		b, err := stretches[i].block()
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}
