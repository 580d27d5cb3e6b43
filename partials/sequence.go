package partials

import (
	"encoding/json"
	"math"
)

// sequence puts numbered messages in order. Each number is handed out once.
type sequence struct {
	next   int64 // the number to be handed out next
	held   map[int64][]json.RawMessage
	size   int // bytes of held
	last   int64
	closed bool // last is the last number
}

func newSequence() sequence { return sequence{held: map[int64][]json.RawMessage{}} }

// place is where a message belongs in the order of those that came.
type place uint8

const (
	inTime place = iota
	seenBefore
	tooLate
)

func (s *sequence) put(n int64, items []json.RawMessage) place {
	if _, held := s.held[n]; held || n < s.next {
		return seenBefore
	}
	if s.closed && n > s.last {
		return tooLate
	}
	s.held[n] = items
	s.size += weigh(items)
	return inTime
}

// close tells which number is the last.
func (s *sequence) close(last int64) {
	if !s.closed {
		s.closed, s.last = true, last
	}
}

// take takes what is next, if it is there.
func (s *sequence) take() ([]json.RawMessage, bool) {
	items, ok := s.held[s.next]
	if ok {
		delete(s.held, s.next)
		s.size -= weigh(items)
		s.next++
	}
	return items, ok
}

// drop lets go what is held: it comes by another way.
func (s *sequence) drop() {
	for n := range s.held {
		s.next = max(s.next, n+1)
	}
	clear(s.held)
	s.size = 0
}

// skip gives up the numbers before the first one that is held; to is the last of them.
func (s *sequence) skip() (to int64, ok bool) {
	if len(s.held) == 0 {
		return 0, false
	}
	first := int64(math.MaxInt64)
	for n := range s.held {
		first = min(first, n)
	}
	s.next = first
	return first - 1, true
}

// highest is the highest number that came.
func (s *sequence) highest() int64 {
	high := s.next - 1
	for n := range s.held {
		high = max(high, n)
	}
	return high
}

// missing are the numbers up to the last one that have not been handed out; there are none if To is less than From.
func (s *sequence) missing() Gap {
	if !s.closed {
		return Gap{From: s.next, To: s.next - 1}
	}
	return Gap{From: s.next, To: max(s.last, s.next-1)}
}

// messageBytes is about what a message takes beside its items.
const messageBytes = 128

func weigh(items []json.RawMessage) int {
	size := messageBytes
	for _, item := range items {
		size += len(item)
	}
	return size
}

// rising tells messages apart whose numbers only rise, by steps of any size.
type rising struct {
	begun  bool
	last   float64
	recent map[float64]bool
	order  []float64 // of recent
}

// keepRecent is how many numbers are remembered, to tell one that came twice from one that came late.
const keepRecent = 1024

func (r *rising) raise(n float64) {
	if !r.begun || n > r.last {
		r.begun, r.last = true, n
	}
}

func (r *rising) take(n float64) place {
	switch {
	case r.recent[n]:
		return seenBefore
	case r.begun && n <= r.last:
		r.remember(n)
		return tooLate
	}
	r.raise(n)
	r.remember(n)
	return inTime
}

func (r *rising) remember(n float64) {
	if r.recent == nil {
		r.recent = map[float64]bool{}
	}
	r.recent[n] = true
	if r.order = append(r.order, n); len(r.order) > keepRecent {
		delete(r.recent, r.order[0])
		r.order = r.order[1:]
	}
}
