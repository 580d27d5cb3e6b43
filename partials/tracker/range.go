package tracker

import "unicode/utf8"

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
