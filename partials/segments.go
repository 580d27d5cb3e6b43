package partials

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"
)

// Segments numbers a task's output for SEP-1905: segment n, from 1, is one content item. A number is given when
// the item is first sent, by whichever mechanism sends it, or before that, when it is stored (Number), and the item stays the same
// from then on: who asks again gets the same bytes under the same number ("Sequence Number Requirements").
type Segments struct {
	log *Log

	mu        sync.Mutex // taken before the log's
	ends      []int64    // ends[n-1] is where segment n ends in the log
	ending    *Ending    // nil until the work has returned: its items have the numbers behind ends
	frozen    bool       // no numbers are given here: they are where the log is written (Follow), or this is a snapshot
	last      int64      // the last number that was sent
	completed bool       // the call was sent isComplete: true
}

// Ending is how a task's output ends.
type Ending struct {
	Rest    []json.RawMessage // content items, encoded, that the result has beyond the output: the last segments
	IsError bool
}

// NewSegments numbers the output in log.
func NewSegments(log *Log) *Segments { return &Segments{log: log} }

// RestoreSegments makes the segments of a stored log: with the numbers that were given, and how the output ended
// (nil if it has not).
func RestoreSegments(log *Log, ends []int64, ending *Ending) *Segments {
	return &Segments{log: log, ends: ends, ending: ending}
}

// Follow leaves it to whoever writes the log to give numbers, until the output has ended; Grow tells of them.
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
		batch, next, err := s.log.ReadAt(context.Background(), from, DefaultMaxBytes)
		s.mu.Lock()
		if err == nil && s.end() == from { // else somebody else has given numbers meanwhile
			s.numberRead(batch, next)
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

// Given returns where the segments from number n+1 on end in the log, as far as they have numbers and end at position end or
// before. What was given once stays, so this is how numbers are stored.
func (s *Segments) Given(n int, end int64) []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	given := s.ends[min(n, len(s.ends)):]
	behind := sort.Search(len(given), func(i int) bool { return given[i] > end })
	return slices.Clone(given[:behind])
}

// Ending is how the output ended, nil if it has not.
func (s *Segments) Ending() *Ending {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending
}

// Finish tells how the output ended; what was told first holds. It must be called before the log is closed.
func (s *Segments) Finish(e Ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = false // what has no number now was given none elsewhere
	if s.ending == nil {
		first := e // e itself would be allocated each time
		s.ending = &first
	}
}

// After returns the segments behind number last, of about limit bytes, and numbers those that have no
// number yet. "the server returns segments starting from lastSeqNr + 1" ("Resuming Streaming"). What another mechanism sends while
// they are read is among them, like what was sent before.
func (s *Segments) After(last int64, limit int) Page {
	c := &collector{page: Page{Content: []byte{'['}}, limit: limit, numbered: true}
	for next := last + 1; ; {
		s.numberWhile(func() bool { return s.needs(last, limit) })
		f := s.snapshot()
		next = f.collect(c, next)
		s.mu.Lock()
		if full := next <= int64(len(f.ends)); full || len(f.ends) == len(s.ends) {
			defer s.mu.Unlock()
			return s.finish(c, next)
		}
		s.mu.Unlock() // more have got numbers meanwhile
	}
}

// snapshot are the segments that have numbers. It belongs to its caller alone, who holds no lock: to read segments may wait for the
// disk, and Encode, for which all other output waits, must not wait for that.
func (s *Segments) snapshot() *Segments {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Segments{log: s.log, ends: slices.Clip(s.ends), ending: s.ending, frozen: true}
}

// Merged returns all segments in order with "the seqNr field removed", as a JSON array of about limit bytes at most: of
// a longer output the middle is left out, cut tells that, and an item says so.
func (s *Segments) Merged(limit int) (items []byte, cut bool) {
	s.Number(math.MaxInt64) // the tail is found from its end
	s = s.snapshot()
	head := s.after(0, limit/2, false)
	rest := []json.RawMessage(nil)
	if s.ending != nil {
		rest = s.ending.Rest
	}
	total := len(s.ends) + len(rest)
	if head.Count == total {
		return head.Content, false
	}
	var tail [][]byte
	for n, size := total, 0; n > head.Count; n-- {
		var item []byte
		if n > len(s.ends) {
			item = rest[n-len(s.ends)-1]
		} else {
			item = s.logged(int64(n), math.MaxInt)
		}
		if size += len(item); size > limit/2 {
			break
		}
		tail = append(tail, item)
	}
	c := collector{page: Page{Content: head.Content[:len(head.Content)-1], Count: head.Count}}
	left := total - head.Count - len(tail)
	if left > 0 {
		c.put(0, fmt.Appendf(nil, `{"type":"text","text":"[%d segments of output are left out here]"}`, left))
	}
	for _, item := range slices.Backward(tail) {
		c.put(0, item)
	}
	return append(c.page.Content, ']'), left > 0
}

// after collects segments. s.mu is held.
func (s *Segments) after(last int64, limit int, numbered bool) Page {
	return s.page(&collector{page: Page{Content: []byte{'['}}, limit: limit, numbered: numbered}, last, last+1)
}

// page is the page behind number last, of which c has what comes before number next. s.mu is held.
func (s *Segments) page(c *collector, last, next int64) Page {
	for s.needs(last, c.limit) && s.number(c.limit) {
		// A batch at a time.
	}
	if lost := s.log.lostTo(); !c.numbered && last == 0 && lost > 0 {
		// Where nobody asks for numbers, all that is gone is one item.
		if n := sort.Search(len(s.ends), func(i int) bool { return s.ends[i] >= lost }); n < len(s.ends) {
			c.put(0, fmt.Appendf(nil, noLongerKept, s.ends[n]))
			c.page.Count, next = n+1, int64(n)+2
		}
	}
	return s.finish(c, s.collect(c, next))
}

// finish ends the page of which c has what stands in the log before number next. s.mu is held.
func (s *Segments) finish(c *collector, next int64) Page {
	logged := int64(len(s.ends))
	if s.ending != nil && s.atEnd() {
		for n, item := range s.ending.Rest {
			if nr := logged + int64(n) + 1; nr == next && c.add(nr, appendItem(nil, item, c.longest())) {
				next++
			}
		}
		c.page.Complete = next > logged+int64(len(s.ending.Rest))
		c.page.IsError = c.page.Complete && s.ending.IsError
	}
	c.page.Content = append(c.page.Content, ']')
	if c.numbered && c.page.Count > 0 {
		s.last = max(s.last, next-1)
	}
	return c.page
}

// collect takes the segments from number next on that have room, and returns the number behind them.
func (s *Segments) collect(c *collector, next int64) int64 {
	for next <= int64(len(s.ends)) && c.add(next, s.logged(next, c.longest())) {
		next++
	}
	return next
}

// needs reports whether more of the log must have numbers for a page of limit bytes behind number last. s.mu is held.
func (s *Segments) needs(last int64, limit int) bool {
	if last > int64(len(s.ends)) {
		return s.ending != nil // only the ending may have something behind such a number, and it comes behind the whole log
	}
	return s.end()-s.begin(last+1) < int64(limit)
}

// atEnd reports whether all of the log has numbers and no more will come. s.mu is held.
func (s *Segments) atEnd() bool {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return s.log.closed && s.log.end <= s.end()
}

// end is where the last segment ends in the log. s.mu is held.
func (s *Segments) end() int64 { return s.begin(int64(len(s.ends)) + 1) }

// begin is where segment n begins in the log. s.mu is held.
func (s *Segments) begin(n int64) int64 {
	if n == 1 {
		return 0
	}
	return s.ends[n-2]
}

// number gives numbers to what comes next in the log, about limit bytes. It reports false if there is nothing. s.mu is held.
func (s *Segments) number(limit int) bool {
	if s.frozen {
		return false
	}
	before := s.end()
	batch, next, err := s.log.ReadAt(context.Background(), before, min(limit, DefaultMaxBytes))
	if err == nil { // else it may be there when it is asked for again
		s.numberRead(batch, next)
	}
	return s.end() > before
}

// numberRead gives numbers to what ReadAt has returned. s.mu is held.
func (s *Segments) numberRead(batch Batch, next int64) {
	if len(batch.records) == 0 || batch.Lost {
		s.numberTo(next)
		return
	}
	s.numberTo(batch.Start) // what the log has let go is one segment, which says so
	s.numberBatch(batch)
}

// numberBatch gives a number to each content item of a batch that has none. s.mu is held.
func (s *Segments) numberBatch(b Batch) {
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

// logged is segment n as it stands in the log, if it is an item of up to longest bytes. s.mu is held.
func (s *Segments) logged(n int64, longest int) []byte {
	begin, end := s.begin(n), s.ends[n-1]
	b, ok := s.log.between(begin, end)
	if !ok {
		return fmt.Appendf(nil, noLongerKept, end-begin)
	}
	return appendItems(nil, &b, longest)
}

// noLongerKept stands for output that is gone.
const noLongerKept = `{"type":"text","text":"[%d bytes of output are no longer kept]"}`
