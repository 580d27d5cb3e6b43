package tracker

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"runnel/rpc/mcp"
)

// Where the server has the whole output as text that can be read from a position on (runnel://tasks/ID/log?after=N), what
// SEP-2679 did not deliver is read there. Its numbers do not tell positions, so what comes behind the gap cannot be put
// together with what was read: from the gap on, all is read, and the notifications only tell when there is more.

// rangeOverlap is how many bytes of what has come are read again: if they differ, the position is not what it seems.
const rangeOverlap = 256

// ranged is the state of such reading.
type ranged struct {
	phase  rangePhase
	asking bool // FetchRange was called, and FetchedRange not yet
	from   int64
	more   bool   // a notification came meanwhile
	tail   []byte // the end of what has come, about rangeOverlap bytes at most
	other  bool   // something that is no text on stdout has come: positions are not known
}

// rangePhase is how far the reading has come.
type rangePhase uint8

const (
	rangeIdle    rangePhase = iota // nothing has to be read: what is missing may be on its way
	rangeAsked                     // something has, and no answer has come: what comes is held, since the gap may close by itself
	rangeReading                   // there was an answer: from here on all is read
	rangeOver                      // all has been read, or what could not be was reported
	rangeRefused                   // it cannot be read: the numbers tell what is missing
)

// active reports whether there is something to read still.
func (r *ranged) active() bool { return r.phase == rangeAsked || r.phase == rangeReading }

// note keeps the end of what is handed out.
func (r *ranged) note(items []json.RawMessage) {
	for _, item := range items {
		text, from, ok := textOf(item)
		r.other = r.other || !ok || from != stdout
		r.tail = append(r.tail, text...)
	}
	if cut := len(r.tail) - rangeOverlap; cut > 0 {
		for cut < len(r.tail) && !utf8.RuneStart(r.tail[cut]) {
			cut++
		}
		r.tail = append([]byte(nil), r.tail[cut:]...)
	}
}

// read begins to read what is missing; false: it cannot be read.
func (t *Tracker) read() bool {
	if t.o.FetchRange == nil || t.spelled != spelled2679 || t.ranged.phase >= rangeOver || t.ranged.other {
		return false
	}
	t.ranged.phase = rangeAsked
	t.askRange()
	return true
}

func (t *Tracker) askRange() {
	r := &t.ranged
	if r.asking {
		r.more = true
		return
	}
	r.asking, r.more, r.from = true, false, t.stats.Bytes-int64(len(r.tail))
	t.o.FetchRange(r.from)
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
	has := t.stats.Bytes - r.from // of the text, at least the tail: it may have grown since
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
	case t.end != Running: // it was asked for behind the end, and there was nothing more
		r.phase = rangeOver
	}
}

// giveUp reports what could not be read.
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
