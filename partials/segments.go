package partials

import (
	"context"
	"math"
	"slices"
	"sort"
	"sync"
)

// Segments numbers a task's output for SEP-1905: segment n, from 1, is one content item. A number is given when
// the item is first sent, by whichever mechanism sends it, or before that, when it is stored (Number), and the item stays the same
// from then on: whoever asks again gets the same bytes under the same number ("Sequence Number Requirements").
type Segments struct {
	mu sync.Mutex // taken before the log's
	numbering
	frozen    bool  // no numbers are given here: they are where the log is written (Follow)
	last      int64 // the last number that was sent
	completed bool  // the call was sent isComplete: true
}

// NewSegments numbers the output in log.
func NewSegments(log *Log) *Segments { return &Segments{numbering: numbering{log: log}} }

// RestoreSegments makes the segments of a stored log: with the numbers that were given, and how the output ended
// (nil if it has not).
func RestoreSegments(log *Log, ends []int64, ending *Ending) *Segments {
	return &Segments{numbering: numbering{log: log, ends: ends, ending: ending}}
}

// Continue goes on with the numbers that were given to what a resumed log has (Log.Resume), by where segments end.
func (s *Segments) Continue(ends []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends = ends
}

// Follow leaves it to whoever writes the log to give numbers, until the output has ended; Grow brings them.
func (s *Segments) Follow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = true
}

// Grow moves the end of a followed log (Log.Grow) and takes the numbers that were given up to there, by where segments end.
func (s *Segments) Grow(end int64, tail []Extent, ends []int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.log.Grow(end, tail); err != nil {
		return err
	}
	s.ends = append(s.ends, ends...)
	return nil
}

// Number gives numbers to all that the log holds up to position end, at least.
func (s *Segments) Number(end int64) {
	s.numberWhile(func() bool { return s.end() < end })
}

// numberWhile gives numbers while more, called with s.mu held, says so. To read what they are given to may wait for the disk: it is
// read without s.mu, for which Encode would wait, and all other output with it.
func (s *Segments) numberWhile(more func() bool) {
	for {
		s.mu.Lock()
		from, more := s.end(), !s.frozen && more()
		s.mu.Unlock()
		if !more {
			return
		}
		batch, _, err := s.log.ReadAt(context.Background(), from, DefaultMaxBytes)
		s.mu.Lock()
		if err == nil && s.end() == from { // else somebody else has given numbers meanwhile
			s.numberBatch(batch)
		}
		stuck := s.end() == from
		s.mu.Unlock()
		if stuck {
			return
		}
	}
}

// Numbered is how many segments have numbers, and where the last of them ends.
func (s *Segments) Numbered() (n int, end int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ends), s.end()
}

// EndOf is where segment n ends in the log, or the last one that has a number if n has none.
func (s *Segments) EndOf(n int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begin(min(n, int64(len(s.ends))) + 1)
}

// Given returns where the segments from number n+1 on end in the log, as far as they have numbers and end at position end or
// before. What was given once stays, so this is how numbers are stored.
func (s *Segments) Given(n int, end int64) []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	given := s.ends[min(n, len(s.ends)):]
	after := sort.Search(len(given), func(i int) bool { return given[i] > end })
	return slices.Clone(given[:after])
}

// Ending is how the output ended, nil if it has not.
func (s *Segments) Ending() *Ending {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending
}

// Finish says how the output ended; the first call counts. It must be called before the log is closed.
func (s *Segments) Finish(e Ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = false // nobody else numbers the rest
	if s.ending == nil {
		first := e // e itself would be allocated each time
		s.ending = &first
	}
}

// After returns the segments after number last, of about limit bytes, and numbers those that have no
// number yet. "the server returns segments starting from lastSeqNr + 1" ("Resuming Streaming"). What another mechanism has sent
// is among them.
func (s *Segments) After(last int64, limit int) Page {
	s.numberFor(last, limit)
	numbers := s.numbers()
	page := numbers.page(last, limit)
	s.sent(page, false)
	return page
}

// Merged returns all segments in order with "the seqNr field removed", as a JSON array of about limit bytes at most: of
// a longer output the middle is left out, cut says that, and an item does.
func (s *Segments) Merged(limit int) (items []byte, cut bool) {
	s.Number(math.MaxInt64) // the tail is found from its end
	numbers := s.numbers()
	return numbers.merged(limit)
}

// numbers are the numbers that were given, for one who reads what has them.
func (s *Segments) numbers() numbering {
	s.mu.Lock()
	defer s.mu.Unlock()
	numbers := s.numbering
	numbers.ends = slices.Clip(numbers.ends)
	return numbers
}

// sent notes that a page is sent, and whether the call is complete with it.
func (s *Segments) sent(p Page, complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Count > 0 {
		s.last = max(s.last, p.last)
	}
	s.completed = s.completed || complete
}

// numberFor gives the numbers that a page of limit bytes after number last needs.
func (s *Segments) numberFor(last int64, limit int) {
	s.numberWhile(func() bool {
		if last > int64(len(s.ends)) {
			return s.ending != nil // only the ending may have something after such a number, and it comes after the whole log
		}
		return s.end()-s.begin(last+1) < int64(limit)
	})
}

// numberBatch gives a number to each content item of a batch that has none. s.mu is held.
func (s *Segments) numberBatch(b Batch) {
	s.numberTo(b.Start) // output that the log has let go is one segment, which says so
	if b.Lost {
		s.numberTo(b.End)
		return
	}
	for i := range b.records {
		if i+1 == len(b.records) || !b.records[i+1].continues(&b.records[i]) {
			s.numberTo(b.Start + int64(b.records[i].end) - int64(b.begin))
		}
	}
}

// numberTo gives a number to what has none up to a position. s.mu is held.
func (s *Segments) numberTo(pos int64) {
	if pos > s.end() {
		s.ends = append(s.ends, pos)
	}
}
