package tracker

import (
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
	case at == seenBefore && !t.isMissing(n):
		t.stats.Duplicates++ // 1.3.10: "it SHOULD discard the duplicate"
	case at != inTime:
		t.stats.Late++
	}
	return at == inTime
}

// isMissing reports whether a number was reported as missing.
func (t *Tracker) isMissing(n int64) bool {
	return slices.ContainsFunc(t.gaps, func(g Gap) bool { return g.From <= n && n <= g.To })
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
	for t.ranged.phase != rangeAsked && t.holdsTooMuch() {
		t.skip()
	}
}

// holdsTooMuch reports whether missing content must be given up.
func (t *Tracker) holdsTooMuch() bool {
	if t.fetching {
		return t.seq.size > 2*t.bound
	}
	return len(t.seq.held) > t.o.Window || t.seq.size > t.bound
}

// skip gives up the content that is missing before the first held number, if there is one.
func (t *Tracker) skip() {
	if t.readOn() {
		return
	}
	from := t.seq.next
	to, ok := t.seq.skip()
	if !ok {
		return
	}
	t.gap(Gap{From: from, To: to})
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
