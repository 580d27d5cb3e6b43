package partials

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"unicode/utf8"
)

// With a backing, Append waits for the backing and not for slow readers: a reader that lags or comes late
// reads what the backing has saved. Append only waits for a reader that would otherwise lose output
// (SetLimit).
//
//	Append ─▶ Log ─ Unsaved ─▶ the backing's owner writes ─ MarkSaved ─▶ memory is released
//	           └─ Next ─ Reader ◀─ Load ─ backing

const (
	// loadBytes is how much a lagging reader takes from the backing at once: a full partial of the default
	// size.
	loadBytes = 64 << 10
	// dueBytes is how much unsaved output makes Due urgent: well before Append waits.
	dueBytes = 128 << 10
)

// Back gives the log a backing for everything that memory still holds and everything that follows. A log has
// one backing at a time; one that comes back after Unback continues after what it has saved. Back may be
// called while the log is written and read.
// A state calls it when it first stores the task.
func (l *Log) Back(b Backing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.backing != nil {
		panic("internal error: the log has a backing")
	}
	l.backing, l.announced = b, nothingDue
	l.retain = min(l.retain, backedRetain)
	l.share(false)
	pos := max(l.saved.pos, l.from())
	l.saved = cursor{pos: pos, cost: l.cost - (l.end - pos)}
	l.saving = l.saved
	l.wakeAppends()
	l.announceDue()
}

// Unback takes the log's backing away: the log keeps what is in memory, and loses what only the backing has.
// A state calls it when it will store no more of the output.
func (l *Log) Unback() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.backing = nil
	l.wakeAppends()
}

// Backed reports whether the log has a backing.
func (l *Log) Backed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.backing != nil
}

// SetLimit limits how many bytes a backing keeps of the log: its head and its tail, each more than a quarter
// of the limit. Call it before the work starts.
func (l *Log) SetLimit(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = bytes
}

// Limit returns the limit that SetLimit has set, 0 if there is none.
// A state keeps to it.
func (l *Log) Limit() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limit
}

// ExtentBytes is the greatest length of a stored extent of output.
const ExtentBytes = 64 << 10

// ExtentSize returns how long the extents are in which a state stores the log: short ones if little of it is
// kept, since its head and its tail consist of whole extents.
func (l *Log) ExtentSize() int {
	if limit := l.Limit(); limit > 0 {
		return int(max(min(ExtentBytes, limit/16), 1))
	}
	return ExtentBytes
}

// Unsaved returns the next extent that the backing does not have, of about limit bytes. The backing's owner
// calls it until there is none, writes the extents, and then calls MarkSaved or, if it could not write them,
// Retry or Fail.
func (l *Log) Unsaved(limit int) (Extent, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.backing == nil || l.failed != nil {
		return Extent{}, false
	}
	blocks, n, at := place(l.blocks, l.saving.pos)
	if blocks == nil {
		l.announced = nothingDue
		return Extent{}, false
	}
	b := fill(blocks[:1], n, at, limit, 0, nil) // one block, so that nothing is copied
	l.saving.pos, l.saving.cost = b.End, l.saving.cost+b.cost()
	s := Extent{Start: b.Start, Marks: make([]byte, 0, 2*len(b.records)), Data: b.bytes()}
	begin := b.begin
	for i := range b.records {
		r := &b.records[i]
		s.mark(r, int(r.end)-begin)
		begin = int(r.end)
	}
	return s, true
}

// MarkSaved records that the backing has everything that Unsaved returned.
func (l *Log) MarkSaved() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.saved = l.saving
	l.trim()
	l.wakeAppends()
	l.announceDue()
}

// Retry lets Unsaved return again what it has returned since MarkSaved, because that could not be written.
// A backing's owner calls it when the next try may succeed.
func (l *Log) Retry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.saving, l.announced = l.saved, nothingDue
}

// ErrLost refuses an append to a log whose backing has failed.
// A tool that gets it should return, since nothing more that it writes can be kept.
var ErrLost = errors.New("the output could not be stored")

// Fail records that the backing cannot keep the output. From now on appends fail with ErrLost and the reason.
// A backing's owner calls it when the error is permanent, and Retry otherwise.
func (l *Log) Fail(reason error) {
	l.mu.Lock()
	first := l.failed == nil
	if first {
		l.failed = fmt.Errorf("%w: %w", ErrLost, reason)
		l.wakeAppends()
	}
	failed, lost := l.failed, l.lost
	l.mu.Unlock()
	if first && lost != nil {
		lost(failed)
	}
}

// Failed returns why the log's output could not be stored, nil if it could.
// Ask it at the end of a task: a result whose output is lost must not count as completed.
func (l *Log) Failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// Memory limits how much all logs of a process that have no backing keep for later readers. Each keeps at
// least as much as a log with a backing, and a log that has ended keeps what it has.
// Set the same one as LogOptions.Memory of all these logs; a tasks.Runner does.
type Memory struct {
	long atomic.Int64 // logs that are still written and hold more than backedRetain
}

const (
	defaultRetain = 8 << 20
	// backedRetain is what memory keeps of a log with a backing, so that a reader that has almost caught up
	// needs no disk.
	backedRetain = 256 << 10
	// sharedRetain is more than a single log keeps, so that a log which is the only long one, or a short one,
	// is not affected.
	sharedRetain = 10 << 20
)

// share is how much one of the long logs may keep, given that it would keep retain if it were alone.
func (m *Memory) share(retain int64) int64 {
	return min(retain, max(sharedRetain/max(m.long.Load(), 1), backedRetain))
}

// Extent is a part of a log that a backing keeps in one piece: whole chunks, and whole writes unless they are
// very long. A state stores Start, Marks and Data, and returns them from Backing.Load.
type Extent struct {
	Start int64  // position of the first byte of Data
	Marks []byte // where the chunks end and what they are, as Unsaved gave them
	Data  []byte

	decoded *block // set by Check
}

var errDamaged = errors.New("reading stored output: it is damaged")

// End is the position after the extent.
func (s *Extent) End() int64 { return s.Start + int64(len(s.Data)) }

// mark appends the mark of a chunk: its length, and four bits that say what it is.
func (s *Extent) mark(r *record, size int) {
	m := uint64(size)<<4 | uint64(r.kind)&1 | uint64(r.stream)&1<<1
	if r.more {
		m |= 1 << 2
	}
	if r.whole {
		m |= 1 << 3
	}
	s.Marks = binary.AppendUvarint(s.Marks, m)
}

// block decodes an extent, or returns an error if it is damaged.
func (s *Extent) block() (*block, error) {
	if s.decoded != nil {
		return s.decoded, nil
	}
	chunks := 0
	for _, m := range s.Marks {
		if m < 0x80 { // the last byte of a mark
			chunks++
		}
	}
	b := &block{start: s.Start, data: s.Data, records: make([]record, chunks)}
	at, rest := uint64(0), s.Marks
	for i := range b.records {
		m, n := binary.Uvarint(rest)
		if n <= 0 || m>>4 > uint64(len(s.Data))-at || uint64(len(s.Data)) > math.MaxUint32 {
			return nil, errDamaged
		}
		rest = rest[n:]
		at += m >> 4
		r := &b.records[i]
		r.end = uint32(at)
		r.kind = Kind(m & 1)
		r.stream = Stream(m >> 1 & 1)
		r.more = m&(1<<2) != 0
		r.whole = m&(1<<3) != 0
	}
	if len(rest) > 0 || at != uint64(len(s.Data)) || len(s.Data) == 0 {
		return nil, errDamaged
	}
	return b, nil
}

// Check returns an error if a stored extent is damaged: the marks must cover all the data, text must be
// UTF-8, and items must be JSON on one line.
// A state calls it on each extent that it reads, before Backing.Load returns it.
func (s *Extent) Check() error {
	b, err := s.block()
	if err != nil {
		return err
	}
	if !utf8.Valid(b.data) {
		return errDamaged
	}
	begin := uint32(0)
	for _, r := range b.records {
		data := b.data[begin:r.end]
		begin = r.end
		if len(data) > 0 && !utf8.RuneStart(data[0]) ||
			r.kind == Item && (bytes.IndexByte(data, '\n') >= 0 || !json.Valid(data)) {
			return errDamaged
		}
	}
	s.decoded = b
	return nil
}

// decode decodes extents, or returns an error if one of them is damaged.
func decode(extents []Extent) (blocks []*block, err error) {
	for i := range extents {
		b, err := extents[i].block()
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

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
