package tracker

import (
	"cmp"
	"encoding/json"
	"slices"

	"runnel/rpc/mcp"
)

// uses reports whether a dialect is that of this call. The first one becomes it.
func (t *Tracker) uses(s dialect) bool {
	if t.dialect == unknownDialect {
		t.dialect = s
		if s == sep1905 {
			t.seq.next = 1 // "seqNr starts at 1"
		}
	}
	return t.dialect == s
}

// takeNumbered takes content with a number.
func (t *Tracker) takeNumbered(s dialect, n int64, items []json.RawMessage) {
	switch {
	case !t.uses(s):
	case s == sep2679 && t.end != Running:
		// "Requestors SHOULD discard any partial notifications received after observing a terminal task
		// status"
		t.stats.Late++
	case t.ranged.phase == rangeReading: // the number only shows that there is more
		t.seq.next = max(t.seq.next, n+1)
		t.want()
	case t.ranged.phase == rangeOver:
	case t.put(n, items):
		t.handOut()
		t.fetch()
		t.limit()
	}
}

// put puts content into the order. It reports false for a duplicate, and for content that comes after its gap
// was reported.
func (t *Tracker) put(n int64, items []json.RawMessage) bool {
	at := t.seq.put(n, items)
	switch {
	case at == seenBefore &&
		!slices.ContainsFunc(t.gaps, func(g Gap) bool { return g.From <= n && n <= g.To }):
		t.stats.Duplicates++ // 1.3.10: "it SHOULD discard the duplicate"
	case at != inTime:
		t.stats.Late++
	}
	return at == inTime
}

// handOut hands out the content for which nothing before it is missing.
func (t *Tracker) handOut() {
	for {
		items, ok := t.seq.take()
		if !ok {
			return
		}
		t.emit(items, false)
	}
}

// limit gives up missing content if too much waits for it. More may wait while it is being fetched.
func (t *Tracker) limit() {
	if t.ranged.phase == rangeAsked && t.seq.size > 2*t.bound {
		t.giveUp()
	}
	for t.ranged.phase != rangeAsked {
		tooMuch := len(t.seq.held) > t.o.Window || t.seq.size > t.bound
		if t.fetching {
			tooMuch = t.seq.size > 2*t.bound
		}
		if !tooMuch {
			return
		}
		t.skip()
	}
}

// skip gives up the content that is missing before the first held number, if there is one.
func (t *Tracker) skip() {
	if t.readOn() {
		return
	}
	if len(t.seq.held) == 0 {
		return
	}
	from := t.seq.next
	t.seq.next = t.seq.held[0].number
	t.gap(Gap{From: from, To: t.seq.next - 1})
	t.handOut()
}

// fetch requests the missing segments, if there is a way to get them.
func (t *Tracker) fetch() {
	after := t.seq.next - 1
	switch {
	case t.o.Missing == nil || t.fetching || t.dialect != sep1905 || len(t.seq.held) == 0:
	case after < 1 || after == t.fetched:
		// LastSeqNr must be at least 1; a request that failed is not repeated.
		t.skip()
	default:
		t.fetching, t.fetched = true, after
		t.want()
	}
}

// readOn begins to read missing content from the log, and reports false if it cannot be read.
func (t *Tracker) readOn() bool {
	if t.o.Missing == nil || t.dialect != sep2679 || t.ranged.phase >= rangeOver || t.ranged.other {
		return false
	}
	t.ranged.phase = max(t.ranged.phase, rangeAsked)
	t.want()
	return true
}

// want makes Wanted return what can be fetched.
func (t *Tracker) want() {
	t.wanted = true
	t.o.Missing()
}

// Interrupted lets Wanted ask for what may be missing: if nothing more comes, no number would show a gap.
func (t *Tracker) Interrupted() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.readOn()
}

// giveUp reports content that could not be read.
func (t *Tracker) giveUp() {
	switch t.ranged.phase {
	case rangeAsked:
		t.ranged.phase = rangeRefused
		for len(t.seq.held) > 0 && (t.end != Running || len(t.seq.held) > t.o.Window) {
			t.skip()
		}
	case rangeReading:
		t.ranged.phase = rangeOver
		t.gap(Gap{From: t.seq.next, To: -1})
	}
}

// gap records and reports missing content.
func (t *Tracker) gap(g Gap) {
	g.Bytes = t.stats.Bytes
	t.stats.Gaps++
	t.merged.gap = true
	if len(t.gaps) < maxGaps {
		t.gaps = append(t.gaps, g)
	}
	if t.o.Gap != nil {
		t.o.Gap(g)
	}
}

// emit hands out the content of one message.
func (t *Tracker) emit(came []json.RawMessage, replaces bool) {
	if replaces {
		t.merged = merged{most: t.merged.most}
	}
	items := came[:0]
	for _, item := range came {
		item, ok := mcp.Received(item)
		if !ok {
			t.stats.Malformed++
			continue
		}
		items = append(items, item)
		p := pieceOf(item)
		t.ranged.note(p)
		t.merged.add(p)
		t.stats.Bytes += int64(len(p.text))
	}
	t.begun = true
	t.stats.Partials++
	if t.o.Content != nil && (len(items) > 0 || replaces) {
		t.o.Content(items, replaces)
	}
}

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
