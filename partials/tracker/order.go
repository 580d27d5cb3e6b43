package tracker

import (
	"encoding/json"
	"slices"

	"runnel/rpc/mcp"
)

// spelled is the dialect in which content came first. No other is listened to: "exactly one carries the content".
type spelled uint8

const (
	unspelled spelled = iota
	spelled2679
	spelled1905
	spelled383
	spelled2998
)

// speaks reports whether a dialect is the one of this call.
func (t *Tracker) speaks(s spelled) bool {
	if t.spelled == unspelled {
		t.spelled = s
		if s == spelled1905 {
			t.seq.next = 1 // "seqNr starts at 1"
		}
	}
	return t.spelled == s
}

// number takes content with a number.
func (t *Tracker) number(s spelled, n int64, items []json.RawMessage) {
	if !t.speaks(s) {
		return
	}
	if s == spelled2679 && t.end != Running {
		// "Requestors SHOULD discard any partial notifications received after observing a terminal task status"
		t.stats.Late++
		return
	}
	switch t.ranged.phase {
	case rangeReading: // the number only tells that there is more
		t.seq.next = max(t.seq.next, n+1)
		t.askRange()
		return
	case rangeOver:
		return
	}
	switch t.seq.put(n, items) {
	case seenBefore:
		if t.isMissing(n) {
			t.stats.Late++
		} else {
			t.stats.Duplicates++ // 1.3.10: "it SHOULD discard the duplicate"
		}
		return
	case tooLate:
		t.stats.Late++ // behind the last
		return
	}
	t.hand()
	t.fetch()
	switch {
	case t.ranged.phase == rangeAsked && len(t.seq.held) == 0:
		t.ranged.phase = rangeIdle // what was late has come
	case t.ranged.phase == rangeAsked && t.seq.size > 2*t.bound:
		t.giveUp()
	}
	for t.ranged.phase != rangeAsked && t.holdsTooMuch() {
		t.skip()
	}
}

// holdsTooMuch reports whether what is missing must be given up. While it is being fetched, more may be held.
func (t *Tracker) holdsTooMuch() bool {
	if t.fetching {
		return t.seq.size > 2*t.bound
	}
	return len(t.seq.held) > t.o.Window || t.seq.size > t.bound
}

// isMissing reports whether a number was reported as missing.
func (t *Tracker) isMissing(n int64) bool {
	return slices.ContainsFunc(t.gaps, func(g Gap) bool { return g.From <= n && n <= g.To })
}

// hand hands out what is in order.
func (t *Tracker) hand() {
	for {
		items, ok := t.seq.take()
		if !ok {
			return
		}
		t.emit(items, false)
	}
}

// skip gives up what is missing before the first number that is held, if one is.
func (t *Tracker) skip() {
	if t.read() {
		return
	}
	from := t.seq.next
	to, ok := t.seq.skip()
	if !ok {
		return
	}
	t.gap(Gap{From: from, To: to})
	t.hand()
}

// gap reports what is missing.
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
	items := came[:0]
	for _, item := range came {
		if item, ok := mcp.Received(item); ok {
			items = append(items, item)
		} else {
			t.stats.Malformed++
		}
	}
	t.begun = true
	t.stats.Partials++
	t.ranged.note(items)
	t.stats.Bytes += t.merged.add(items, replaces)
	if t.o.Content != nil && (len(items) > 0 || replaces) {
		t.o.Content(items, replaces)
	}
}

// next is the number that comes next, or the count in a dialect without numbers.
func (t *Tracker) next() int64 {
	if t.spelled == spelled383 {
		return int64(t.stats.Partials)
	}
	return t.seq.next
}
