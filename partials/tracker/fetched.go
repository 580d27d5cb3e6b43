package tracker

import (
	"encoding/json"
	"strings"

	"runnel/rpc/mcp"
)

// Segments of SEP-1905 come in responses, and what did not come can be asked for: tasks/result with lastSeqNr ("Resuming Streaming").

// segments takes the segments of a result.
func (t *Tracker) segments(result []byte) {
	var r struct {
		Content    []json.RawMessage `json:"partial-content"`
		IsComplete bool              `json:"isComplete"`
	}
	if json.Unmarshal(result, &r) != nil || r.Content == nil || !t.speaks(spelled1905) {
		t.stats.Malformed++
		return
	}
	highest := int64(0)
	for _, item := range r.Content {
		n, bare, ok := cutSeqNr(item)
		if !ok {
			t.stats.Malformed++
			continue
		}
		highest = max(highest, n)
		t.number(spelled1905, n, []json.RawMessage{bare})
	}
	if r.IsComplete {
		t.last = true
		t.seq.close(max(highest, t.seq.highest()))
	}
}

// cutSeqNr takes the number out of a segment: "Remove seqNr field from each segment" ("Segment Merging").
func cutSeqNr(item json.RawMessage) (n int64, bare json.RawMessage, ok bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(item, &members) != nil || json.Unmarshal(members["seqNr"], &n) != nil || n < 1 || n > maxNumber {
		return 0, nil, false
	}
	delete(members, "seqNr")
	bare, err := json.Marshal(members)
	return n, bare, err == nil
}

// Fetched takes the answer to Fetch, or to what Poll told to ask for: a result with partial-content, or the error that came instead.
func (t *Tracker) Fetched(result json.RawMessage, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.fetching = true // a gap in the middle of the answer is not a reason to ask again
		t.segments(result)
	}
	t.fetching = false
	if len(t.seq.held) > 0 && t.seq.next-1 == t.fetched {
		t.skip()
	}
	t.fetch()
}

// Rest reports whether there is output of SEP-1905 to fetch still, and after which number.
func (t *Tracker) Rest() (lastSeqNr int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rest()
}

func (t *Tracker) rest() (lastSeqNr int64, ok bool) {
	complete := t.last && len(t.seq.held) == 0 && t.seq.missing().To < t.seq.next
	return t.seq.next - 1, t.spelled == spelled1905 && !complete && t.seq.next > 1
}

// Poll is Rest for who fetches it now, and hands the answer to Fetched. It is not ok while another answer is awaited: what is asked
// for besides would come twice, and what one of the answers has would be missing in the other.
func (t *Tracker) Poll() (lastSeqNr int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	lastSeqNr, ok = t.rest()
	if t.fetching || !ok {
		return 0, false
	}
	t.fetching = true
	return lastSeqNr, true
}

// Fetching reports whether an answer to Fetch, or to what Poll told to ask for, is awaited.
func (t *Tracker) Fetching() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fetching
}

// Ranging reports whether output is still to be read by FetchRange.
func (t *Tracker) Ranging() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ranged.active()
}

// FetchedRange takes the answer to FetchRange: text from that position up to next, or the error that came instead.
func (t *Tracker) FetchedRange(text string, next int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &t.ranged
	r.asking = false
	if !r.active() {
		return
	}
	has := t.stats.Bytes - r.from // bytes of the text, at least the tail: it may have grown since
	// Where text stands for something else (an image, output that is no longer kept) it has another length.
	if err != nil || r.from+int64(len(text)) != next || has > int64(len(text)) || !strings.HasSuffix(text[:has], string(r.tail)) {
		t.giveUp()
		return
	}
	r.phase = rangeReading
	t.seq.drop()
	if text = text[has:]; text != "" {
		t.emit([]json.RawMessage{mcp.Text(text)}, false)
	}
	switch {
	case text != "" || r.more:
		t.askRange()
	case t.end != Running: // it was asked for after the end, and there was nothing more
		r.phase = rangeOver
	}
}
