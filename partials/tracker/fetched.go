package tracker

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"runnel/rpc/mcp"
)

// Segments of SEP-1905 come in responses, and missing ones can be requested: tasks/result with lastSeqNr
// ("Resuming Streaming").

// segments takes the segments of a result.
func (t *Tracker) segments(result []byte) {
	var r struct {
		Content    []json.RawMessage `json:"partial-content"`
		IsComplete bool              `json:"isComplete"`
		IsError    bool              `json:"isError"`
	}
	if json.Unmarshal(result, &r) != nil || r.Content == nil || !t.uses(sep1905) {
		t.stats.Malformed++
		return
	}
	if n := len(r.Content); t.o.NoErrors && r.IsComplete && r.IsError && n > 0 {
		r.Content = r.Content[:n-1]
	}
	highest := int64(0)
	for _, item := range r.Content {
		n, bare, ok := cutSeqNr(item)
		if !ok {
			t.stats.Malformed++
			continue
		}
		highest = max(highest, n)
		t.takeNumbered(sep1905, n, []json.RawMessage{bare})
	}
	if r.IsComplete {
		t.last = true
		t.seq.close(max(highest, t.seq.highest()))
	}
}

// cutSeqNr removes the number from a segment: "Remove seqNr field from each segment" ("Segment Merging").
func cutSeqNr(item json.RawMessage) (n int64, bare json.RawMessage, ok bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(item, &members) != nil || json.Unmarshal(members["seqNr"], &n) != nil || n < 1 ||
		n > maxNumber {
		return 0, nil, false
	}
	delete(members, "seqNr")
	bare, err := json.Marshal(members)
	return n, bare, err == nil
}

// Wanted is output that can be fetched. Fetch it as its fields say, and pass the answer to [Tracker.Fetched]
// or [Tracker.FetchedRange].
type Wanted struct {
	After int64 // it comes after this number or, with Log, from this position on
	// Read it from the task's log as text, for FetchedRange; otherwise as a result with lastSeqNr, for
	// Fetched.
	Log bool
}

// Wanted returns missing output that can be fetched. With rest it also returns what a server of SEP-1905 has
// not pushed, unless that comes after number asked, for which a request has brought nothing. It returns each
// only once: the caller passes on the answer before it calls Wanted again.
// Call it after Options.Missing has been called, and at the end of a call.
func (t *Tracker) Wanted(rest bool, asked int64) (w Wanted, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	after := t.seq.next - 1
	complete := t.last && len(t.seq.held) == 0 && t.seq.missing().To <= after
	switch {
	case t.wanted && t.dialect == sep1905:
		w.After = t.fetched
	case t.wanted && t.ranged.active():
		t.ranged.from = t.stats.Bytes - int64(len(t.ranged.tail))
		w = Wanted{t.ranged.from, true}
	case rest && t.dialect == sep1905 && !complete && after >= 1 && after != asked:
		t.fetching, w.After = true, after
	default:
		return w, false
	}
	t.wanted = false
	return w, true
}

// Fetched takes the answer to a request for segments: a result with partial-content, or the error that came
// instead.
func (t *Tracker) Fetched(result json.RawMessage, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.fetching = true // a gap within the answer is not a reason to ask again
		t.segments(result)
	}
	t.fetching = false
	if len(t.seq.held) > 0 && t.seq.next-1 == t.fetched {
		t.skip()
	}
	t.fetch()
}

// FetchedRange takes the answer to a request for the log: the text from that position up to next, or the
// error that came instead.
func (t *Tracker) FetchedRange(text string, next int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &t.ranged
	if !r.active() {
		return
	}
	// Bytes of the text that have already come: at least the tail, which may have grown since.
	has := t.stats.Bytes - r.from
	// Where text replaces something else (an image, output that is no longer kept), its length differs.
	if err != nil || r.from+int64(len(text)) != next || has > int64(len(text)) ||
		!strings.HasSuffix(text[:has], string(r.tail)) {
		t.giveUp()
		return
	}
	r.phase = rangeReading
	t.seq.drop()
	if text = text[has:]; text != "" {
		t.emit([]json.RawMessage{mcp.Text(text)}, false)
	}
	switch {
	case text != "":
		t.want()
	case t.end != Running && !t.wanted: // it was requested after the end, and there was nothing more
		r.phase = rangeOver
	}
}

// Some servers have the whole output as text that can be read from a position on
// (runnel://tasks/ID/log?after=N). The tracker reads there what SEP-2679 did not deliver. The numbers of
// SEP-2679 are not positions, so what comes after a gap cannot be joined with what was read: from the gap on
// everything is read, and the notifications only show that there is more.

// rangeOverlap is how many bytes that have come are read again: if they differ, the position is wrong.
const rangeOverlap = 256

// ranged is the state of such reading.
type ranged struct {
	phase rangePhase
	from  int64  // the position at which reading continues
	tail  []byte // the end of what has come, at most about rangeOverlap bytes
	other bool   // something other than text on stdout has come, so positions are unknown
}

// rangePhase is how far the reading has come.
type rangePhase uint8

const (
	rangeIdle    rangePhase = iota // nothing needs to be read: what is missing may be on its way
	rangeAsked                     // the text is requested, and there is no answer so far: what comes is held, since the gap may close by itself
	rangeReading                   // there was an answer: from here on everything is read
	rangeOver                      // everything has been read, or was reported as missing
	rangeRefused                   // the text cannot be read: the numbers show what is missing
)

// active reports whether there is something left to read.
func (r *ranged) active() bool { return r.phase == rangeAsked || r.phase == rangeReading }

// note keeps the end of what is handed out.
func (r *ranged) note(p piece) {
	r.other = r.other || !p.isText || p.from != stdout
	r.tail = append(r.tail, p.text[max(len(p.text)-2*rangeOverlap, 0):]...)
	if cut := len(r.tail) - rangeOverlap; cut > 0 {
		for cut < len(r.tail) && !utf8.RuneStart(r.tail[cut]) {
			cut++
		}
		r.tail = r.tail[:copy(r.tail, r.tail[cut:])]
	}
}
