package terminal

import (
	"fmt"
	"iter"
	"regexp"
	"strconv"
	"sync"

	"runnel/tools/text"
)

// Piece is a part of the log of a terminal: what the terminal is sent or, if Columns is not 0, the size that
// it gets.
type Piece struct {
	Sent          []byte
	Columns, Rows int
}

// Pieces returns the pieces of a part of a log, which has whole sequences.
func Pieces(log []byte) iter.Seq[Piece] {
	return func(yield func(Piece) bool) {
		for len(log) > 0 {
			at := sizes().FindSubmatchIndex(log)
			end := len(log)
			if at != nil {
				end = at[0]
			}
			if end > 0 && !yield(Piece{Sent: text.Decode(nil, log[:end])}) || at == nil {
				return
			}
			rows, _ := strconv.Atoi(string(log[at[2]:at[3]]))
			columns, _ := strconv.Atoi(string(log[at[4]:at[5]]))
			if 0 < rows && rows <= maxSize && 0 < columns && columns <= maxSize &&
				!yield(Piece{Columns: columns, Rows: rows}) {
				return
			}
			log = log[at[1]:]
		}
	}
}

// sizes matches the sequence by which xterm sets the size of its text area: rows, columns. No program has
// written it: text.Encoder leaves it out.
var sizes = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(text.LogColor + `8;(\d{1,4});(\d{1,4})t`)
})

// maxSize bounds columns and rows.
const maxSize = 500

// Resized is what the log of a terminal has where its size changes, and where it begins.
func Resized(columns, rows int) []byte {
	return fmt.Appendf(nil, "%s8;%d;%dt", text.LogColor, rows, columns)
}
