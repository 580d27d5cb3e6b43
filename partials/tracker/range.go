package tracker

import "unicode/utf8"

// Where the server has the whole output as text that can be read from a position on (runnel://tasks/ID/log?after=N), what
// SEP-2679 did not deliver is read there. Its numbers are not positions, so what comes after the gap cannot be put
// together with what was read: from the gap on, all is read, and the notifications only show when there is more.

// rangeOverlap is how many bytes of what has come are read again: if they differ, the position is not what it seems.
const rangeOverlap = 256

// ranged is the state of such reading.
type ranged struct {
	phase rangePhase
	from  int64  // the position from which on it is read
	tail  []byte // the end of what has come, about rangeOverlap bytes at most
	other bool   // something other than text on stdout has come: positions are not known
}

// rangePhase is how far the reading has come.
type rangePhase uint8

const (
	rangeIdle    rangePhase = iota // nothing has to be read: what is missing may be on its way
	rangeAsked                     // something has, and no answer has come: what comes is held, since the gap may close by itself
	rangeReading                   // there was an answer: from here on all is read
	rangeOver                      // all has been read, or what could not be was reported
	rangeRefused                   // it cannot be read: the numbers show what is missing
)

// active reports whether there is something to read still.
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
