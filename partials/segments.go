package partials

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"sort"
	"sync"
)

// Segments numbers a task's output for SEP-1905: segment n, counting from 1, is one item. An item gets its
// number when it is first sent, by any mechanism, or earlier, when it is stored (Number). From then on it
// does not change: every request gets the same bytes under the same number ("Sequence Number Requirements").
type Segments struct {
	mu sync.Mutex // taken before the log's
	numbering
	frozen    bool  // the process that writes the log gives the numbers, not this one (Follow)
	last      int64 // the last number that was sent
	completed bool  // the call was sent isComplete: true
}

// NewSegments returns Segments that number the output in log.
// Make them with the log of a new task.
func NewSegments(log *Log) *Segments { return &Segments{numbering: numbering{log: log}} }

// RestoreSegments makes the segments of a stored log, with the numbers that were given and the way the output
// ended (nil if it has not). A state uses it for a task that it has read.
func RestoreSegments(log *Log, ends []int64, ending *Ending) *Segments {
	return &Segments{numbering: numbering{log: log, ends: ends, ending: ending}}
}

// Continue sets the numbers that the output of a resumed log has already got (Log.Resume), by where its
// segments end. A state calls it after Log.Resume.
func (s *Segments) Continue(ends []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends = ends
}

// Follow leaves numbering to the process that writes the log until the output has ended; Grow brings the
// numbers.
func (s *Segments) Follow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = true
}

// Grow moves the end of a followed log (Log.grow), and adds the numbers that were given up to there, by where
// segments end. Task.Update of package tasks calls it.
func (s *Segments) Grow(end int64, tail []Extent, ends []int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.log.grow(end, tail); err != nil {
		return err
	}
	s.ends = append(s.ends, ends...)
	return nil
}

// Number gives numbers to at least everything that the log holds up to position end, as far as it can be
// read. Use it before Given, to store the numbers with the output.
func (s *Segments) Number(end int64) {
	_ = s.numberTo(end)
}

func (s *Segments) numberTo(end int64) error {
	return s.numberWhile(func() bool { return s.end() < end })
}

// numberWhile gives numbers while more, which is called with s.mu held, returns true. Reading what is to be
// numbered may wait for the disk, so it happens without s.mu: Encode would wait for that, and all other
// output with it.
func (s *Segments) numberWhile(more func() bool) error {
	for {
		s.mu.Lock()
		from, more := s.end(), !s.frozen && more()
		s.mu.Unlock()
		if !more {
			return nil
		}
		batch, _, err := s.log.ReadAt(context.Background(), from, DefaultMaxBytes)
		if err != nil {
			return err
		}
		s.mu.Lock()
		if s.end() == from { // otherwise another goroutine has given numbers
			s.numberBatch(batch)
		}
		stuck := s.end() == from
		s.mu.Unlock()
		if stuck {
			return nil
		}
	}
}

// Numbered returns how many segments have numbers, and where the last of them ends.
func (s *Segments) Numbered() (n int, end int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ends), s.end()
}

// EndOf returns where segment n ends in the log, or the last numbered one if n has no number yet.
func (s *Segments) EndOf(n int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begin(min(n, int64(len(s.ends))) + 1)
}

// Given returns where the segments from number n+1 on end in the log, as far as they have numbers and end at
// position end or before. Numbers never change once given, so this is how they are stored.
// A state calls it when it stores output.
func (s *Segments) Given(n int, end int64) []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	given := s.ends[min(n, len(s.ends)):]
	after := sort.Search(len(given), func(i int) bool { return given[i] > end })
	return slices.Clone(given[:after])
}

// Ending returns how the output ended, nil if it has not.
// A state stores it with the outcome.
func (s *Segments) Ending() *Ending {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending
}

// Finish sets how the output ended; only the first call counts.
// Call it before the log is closed.
func (s *Segments) Finish(e Ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = false // the writer gives no more numbers
	if s.ending == nil {
		first := e // e itself would be allocated each time
		s.ending = &first
	}
}

// After returns the segments after number last, of about limit bytes, and numbers those that have no number
// yet. "the server returns segments starting from lastSeqNr + 1" ("Resuming Streaming"). They include what
// another mechanism has already sent. It fails if the output cannot be read, and may succeed later.
func (s *Segments) After(last int64, limit int) (Page, error) {
	if err := s.numberFor(last, limit); err != nil {
		return Page{}, err
	}
	numbers := s.numbers()
	page, err := numbers.page(last, limit)
	if err != nil {
		return Page{}, err
	}
	s.sent(page, false)
	return page, nil
}

// Merged returns all segments in order with "the seqNr field removed", as a JSON array of at most about limit
// bytes. The middle of a longer output is left out: cut reports it, and an item says so. It fails like After.
func (s *Segments) Merged(limit int) (items []byte, cut bool, err error) {
	if err := s.numberTo(math.MaxInt64); err != nil { // the tail is found from the end
		return nil, false, err
	}
	numbers := s.numbers()
	return numbers.merged(limit)
}

// numbers returns a copy of the numbers given so far, for reading the segments.
func (s *Segments) numbers() numbering {
	s.mu.Lock()
	defer s.mu.Unlock()
	numbers := s.numbering
	numbers.ends = slices.Clip(numbers.ends)
	return numbers
}

// sent records that a page is sent, and whether it completes the call.
func (s *Segments) sent(p Page, complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Count > 0 {
		s.last = max(s.last, p.last)
	}
	s.completed = s.completed || complete
}

// numberFor gives the numbers that are needed for a page of limit bytes after number last.
func (s *Segments) numberFor(last int64, limit int) error {
	return s.numberWhile(func() bool {
		if last > int64(len(s.ends)) {
			// The ending alone can have segments after such a number, and it comes after the whole log.
			return s.ending != nil
		}
		return s.end()-s.begin(last+1) < int64(limit)
	})
}

// numberBatch numbers the items of a batch that have no number yet. s.mu is held.
func (s *Segments) numberBatch(b Batch) {
	s.endSegment(b.Start) // output that is gone is one segment, which says so
	if b.Lost {
		s.endSegment(b.End)
		return
	}
	for i := range b.records {
		if i+1 == len(b.records) || !b.records[i+1].continues(&b.records[i]) {
			s.endSegment(b.Start + int64(b.records[i].end) - int64(b.begin))
		}
	}
}

// endSegment gives one number to everything unnumbered before a position. s.mu is held.
func (s *Segments) endSegment(pos int64) {
	if pos > s.end() {
		s.ends = append(s.ends, pos)
	}
}

// ErrEnds reports that the stored numbers of segments are damaged.
// A state that gets it fails the damaged task, not the request.
var ErrEnds = errors.New("the numbers of its segments cannot be read")

// EncodeEnds encodes where segments end (Segments.Given): as differences, the first one from last.
// A state stores the result.
func EncodeEnds(last int64, ends []int64) (stored []byte) {
	for _, end := range ends {
		stored = binary.AppendVarint(stored, end-last)
		last = end
	}
	return stored
}

// decodeEnds decodes what EncodeEnds has encoded, or fails with ErrEnds.
func decodeEnds(last int64, stored []byte) (ends []int64, err error) {
	for len(stored) > 0 {
		d, size := binary.Varint(stored)
		if size <= 0 || d <= 0 || d > math.MaxInt64-last {
			return nil, ErrEnds
		}
		last += d
		ends = append(ends, last)
		stored = stored[size:]
	}
	return ends, nil
}

// Numbers collects where the segments of a task end, from stored rows that are read in order.
// A state reads them so.
type Numbers struct {
	After int   // the rows begin with the number after this one
	Last  int64 // where that segment ends
	End   int64 // where the log ends
	Known int   // so many numbers must be there at least, if the state knows

	ends []int64
}

// Add takes the row whose first number is first, as EncodeEnds has written it. It reports whether more may
// follow: no row does that was stored after the end of the log was read. It fails with ErrEnds.
func (x *Numbers) Add(first int64, row []byte) (more bool, err error) {
	if first < x.Next() { // an older one, or one that is stored twice
		return true, nil
	}
	ends, err := decodeEnds(x.Last, row)
	if err != nil || len(ends) == 0 || first != x.Next() {
		return false, ErrEnds
	}
	if end := ends[len(ends)-1]; end <= x.End {
		x.ends, x.Last = append(x.ends, ends...), end
		return true, nil
	}
	return false, nil
}

// Next is the number after those that are known.
func (x *Numbers) Next() int64 { return int64(x.After+len(x.ends)) + 1 }

// Complete reports whether all numbers were found that the state knows of.
func (x *Numbers) Complete() bool { return x.After+len(x.ends) >= x.Known }

// Ends returns what was collected, and fails with ErrEnds if that is not complete.
func (x *Numbers) Ends() ([]int64, error) {
	if !x.Complete() {
		return nil, ErrEnds
	}
	return x.ends, nil
}
