package tracker

import (
	"cmp"
	"encoding/json"
	"slices"
)

// sequence puts numbered messages in order. Each number is handed out once.
type sequence struct {
	next   int64      // the number to be handed out next
	held   []numbered // sorted by number; none is before next
	size   int        // bytes of held
	last   int64
	closed bool // last is the last number
}

// numbered is a message that waits for earlier ones.
type numbered struct {
	number int64
	items  []json.RawMessage
}

// place is where a message belongs in the order.
type place uint8

const (
	inTime place = iota
	seenBefore
	tooLate
)

func (s *sequence) put(n int64, items []json.RawMessage) place {
	at, held := slices.BinarySearchFunc(s.held, n,
		func(m numbered, n int64) int { return cmp.Compare(m.number, n) })
	if held || n < s.next {
		return seenBefore
	}
	if s.closed && n > s.last {
		return tooLate
	}
	s.held = slices.Insert(s.held, at, numbered{n, items})
	s.size += sizeOf(items)
	return inTime
}

// close sets the last number.
func (s *sequence) close(last int64) {
	if !s.closed {
		s.closed, s.last = true, last
	}
}

// take takes the next message, if it is there.
func (s *sequence) take() ([]json.RawMessage, bool) {
	if len(s.held) == 0 || s.held[0].number != s.next {
		return nil, false
	}
	items := s.held[0].items
	s.held[0] = numbered{}
	if len(s.held) == 1 {
		s.held = s.held[:0] // the usual case: messages in order need no more memory
	} else {
		s.held = s.held[1:]
	}
	s.size -= sizeOf(items)
	s.next++
	return items, true
}

// drop drops the held messages: their content comes in another way.
func (s *sequence) drop() {
	s.next = s.highest() + 1
	s.held, s.size = nil, 0
}

// skip gives up the numbers before the first held one; to is the last of them.
func (s *sequence) skip() (to int64, ok bool) {
	if len(s.held) == 0 {
		return 0, false
	}
	s.next = s.held[0].number
	return s.next - 1, true
}

// highest returns the highest number that has come.
func (s *sequence) highest() int64 {
	if n := len(s.held); n > 0 {
		return s.held[n-1].number
	}
	return s.next - 1
}

// missing returns the numbers up to the last one that have not been handed out; there are none if To is less
// than From.
func (s *sequence) missing() Gap {
	if !s.closed {
		return Gap{From: s.next, To: s.next - 1}
	}
	return Gap{From: s.next, To: max(s.last, s.next-1)}
}

const (
	// messageBytes is about how much memory a message takes in addition to its items.
	messageBytes = 128
	// itemBytes is about how much memory an item takes in addition to its text.
	itemBytes = 48
)

func sizeOf(items []json.RawMessage) int {
	size := messageBytes + len(items)*itemBytes
	for _, item := range items {
		size += len(item)
	}
	return size
}

// rising tells messages apart by numbers that only rise, by steps of any size.
type rising struct {
	begun  bool
	last   float64
	recent []float64
}

// keepRecent is how many numbers are remembered, to tell a duplicate from a late message.
const keepRecent = 1024

func (r *rising) raise(n float64) {
	if !r.begun || n > r.last {
		r.begun, r.last = true, n
	}
}

func (r *rising) take(n float64) place {
	at := inTime
	if r.begun && n <= r.last {
		if at = tooLate; slices.Contains(r.recent, n) {
			return seenBefore
		}
	}
	r.raise(n)
	r.recent = append(r.recent[max(len(r.recent)-keepRecent+1, 0):], n)
	return at
}
