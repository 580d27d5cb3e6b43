package terminal

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/mattn/go-runewidth"
)

// Drawn gives the text of a terminal as it stands after programs have drawn over it: spinners, progress bars,
// lists that are drawn again. It takes what a program prints, and passes on each line once the program cannot
// reach it any more, because it has moved above the screen. What is shown on the alternate screen disappears
// when the program leaves that; of a program that ends there, its last screen is passed on.
//
// Unlike Screen it breaks no line at the width of the terminal: what is longer was meant as one line, and
// nothing tells the two apart afterwards. It holds the lines of one screen, of at most maxRow cells each.
//
// Set Take and Rows before the first Write.
type Drawn struct {
	Rows int // of the terminal
	// Take gets each line with its newline, which the last one may lack, and where it began (see Write). The
	// line is valid until Take returns.
	Take func(line []byte, at int64)

	parser   *ansi.Parser
	escape   bool // the last byte was ESC
	inString bool // of a title, say, which is left out
	screen
	main  *screen // while the alternate screen is shown; otherwise nil
	at    int64   // the position of what is being read
	line  []byte
	spare []rune // memory for the cells of the next row
}

// screen is what a terminal shows.
type screen struct {
	rows           []row
	x, y           int // of the cursor; y counts from rows[0]
	savedX, savedY int
	top, bottom    int // the rows that scroll; bottom is the one after them, 0 if all do
}

// row is a line of a terminal. A character that is wider than a cell is followed by cells with wide.
type row struct {
	cells []rune
	marks map[int][]rune // combining characters, by the cell before them
	at    int64          // where it began
}

const (
	wide     = -1
	tabStop  = 8
	maxRow   = 16 << 10 // cells; a longer line is passed on in parts
	maxMarks = 16       // of a cell
)

func (d *Drawn) init() {
	d.parser = ansi.NewParser()
	d.parser.SetDataSize(1) // Write leaves strings out
	d.parser.SetHandler(ansi.Handler{Print: d.print, Execute: d.control, HandleCsi: d.sequence,
		HandleEsc: d.function})
	d.rows = []row{{}}
}

// Write takes what a program has printed, as valid UTF-8, and its position: that of all rows that it begins.
func (d *Drawn) Write(p []byte, at int64) {
	if d.parser == nil {
		d.init()
	}
	d.at = at
	for _, b := range p {
		d.advance(b)
	}
}

// advance takes a byte. The parser would end a string, such as a title, at some bytes of UTF-8, and never end
// one that has no end: so a string ends at BEL or at a sequence and, as it may have been cut off, with its
// line.
func (d *Drawn) advance(b byte) {
	const bel, can, sub, esc = '\a', 0x18, 0x1a, 0x1b
	if d.inString {
		switch b {
		case bel, can, sub:
			d.inString = false
			return
		case esc, '\n', '\r':
			d.inString = false
		default:
			return
		}
	}
	if d.escape && strings.IndexByte("]PX^_", b) >= 0 {
		d.escape, d.inString = false, true
		d.parser.Reset()
		return
	}
	d.escape = b == esc
	d.parser.Advance(b)
}

// End passes on what is left.
func (d *Drawn) End() {
	if d.parser == nil {
		return
	}
	d.parser = nil
	if d.main != nil {
		shown := d.screen
		d.leaveAlternate()
		d.passScreen("\n")
		d.screen = shown
	}
	d.passScreen("")
}

// passScreen passes on all rows, and the last one with an end.
func (d *Drawn) passScreen(end string) {
	last := len(d.rows) - 1
	for ; last > d.y && len(d.rows[last].cells) == 0; last-- { // it was erased
		end = "\n"
	}
	for i := range last {
		d.pass(&d.rows[i], "\n")
	}
	if r := &d.rows[last]; len(r.cells) > 0 || end != "" && last < len(d.rows)-1 {
		d.pass(r, end)
	}
}

// pass passes on a row, unless it is one of the alternate screen.
func (d *Drawn) pass(r *row, end string) {
	if d.main != nil {
		return
	}
	d.line = append(r.text(d.line[:0]), end...)
	d.Take(d.line, r.at)
}

// text appends the text of a row.
func (r *row) text(dst []byte) []byte {
	for i, c := range r.cells {
		if c != wide {
			dst = utf8.AppendRune(dst, c)
		}
		for _, mark := range r.marks[i] {
			dst = utf8.AppendRune(dst, mark)
		}
	}
	return dst
}

// print puts a character where the cursor is.
func (d *Drawn) print(c rune) {
	if c >= 0x80 && c < 0xa0 { // a control character
		return
	}
	r := d.row()
	width := 1
	if c >= utf8.RuneSelf {
		width = runewidth.RuneWidth(c)
	}
	if width == 0 {
		if cell := min(d.x, len(r.cells)) - 1; cell >= 0 && len(r.marks[cell]) < maxMarks {
			if r.marks == nil {
				r.marks = map[int][]rune{}
			}
			r.marks[cell] = append(r.marks[cell], c)
		}
		return
	}
	d.put(r, c, width)
}

// put puts a character that takes width cells.
func (d *Drawn) put(r *row, c rune, width int) {
	if d.x+width > maxRow {
		d.passLong()
		r = d.row()
	}
	r.fill(d.x)
	if d.x == len(r.cells) {
		r.cells = append(r.cells, c)
		for range width - 1 {
			r.cells = append(r.cells, wide)
		}
	} else {
		r.fill(d.x + width)
		r.clear(d.x, d.x+width)
		r.cells[d.x] = c
		for i := range width - 1 {
			r.cells[d.x+1+i] = wide
		}
	}
	d.x += width
}

// passLong passes on the beginning of a line that is too long to hold, with all rows above it.
func (d *Drawn) passLong() {
	for i := range d.y {
		d.pass(&d.rows[i], "\n")
	}
	d.pass(&d.rows[d.y], "")
	d.rows = slices.Delete(d.rows, 0, d.y)
	d.rows[0] = row{at: d.rows[0].at}
	d.x, d.y = 0, 0
}

// row returns the row of the cursor.
func (d *Drawn) row() *row {
	for d.y >= len(d.rows) {
		d.rows = append(d.rows, row{cells: d.spare, at: d.at})
		d.spare = nil
	}
	for len(d.rows) > d.Rows {
		d.pass(&d.rows[0], "\n")
		d.spare = d.rows[0].cells[:0]
		d.rows = slices.Delete(d.rows, 0, 1)
		d.y = max(d.y-1, 0)
		d.savedY = max(d.savedY-1, 0)
	}
	return &d.rows[d.y]
}

// fill makes a row n cells long, if it is shorter.
func (r *row) fill(n int) {
	for len(r.cells) < min(n, maxRow) {
		r.cells = append(r.cells, ' ')
	}
}

// clear makes the cells from begin to end blank, with the rest of a wide character that reaches into them.
func (r *row) clear(begin, end int) {
	end = min(end, len(r.cells))
	if begin >= end {
		return
	}
	for begin > 0 && r.cells[begin] == wide {
		begin--
	}
	for end < len(r.cells) && r.cells[end] == wide {
		end++
	}
	for i := begin; i < end; i++ {
		r.cells[i] = ' '
		delete(r.marks, i)
	}
}

// cut removes the cells from n on.
func (r *row) cut(n int) {
	if n < len(r.cells) {
		r.clear(n, len(r.cells))
		r.cells = r.cells[:n]
	}
	if len(r.cells) == 0 {
		r.marks = nil
	}
}

func (d *Drawn) control(c byte) {
	switch c {
	case '\n', '\v', '\f':
		d.lineFeed()
	case '\r':
		d.x = 0
	case '\b':
		d.x = max(d.x-1, 0)
	case '\t':
		next := (d.x/tabStop + 1) * tabStop
		if r := d.row(); d.x >= len(r.cells) {
			d.put(r, '\t', next-d.x)
		} else {
			d.x = next
		}
	}
}

// lineFeed moves the cursor down, and the text up if there is no row below.
func (d *Drawn) lineFeed() {
	switch {
	case d.bottom == 0 || d.y < d.bottom-1:
		d.y++
		d.row()
	case d.y == d.bottom-1:
		d.row()
		if d.top == 0 {
			d.pass(&d.rows[0], "\n")
		}
		d.rows = slices.Insert(slices.Delete(d.rows, d.top, d.top+1), d.bottom-1, row{at: d.at})
	case d.y < d.Rows-1: // below the rows that scroll
		d.y++
	}
}

// function takes a sequence of ESC and one character.
func (d *Drawn) function(cmd ansi.Cmd) {
	switch cmd.Final() {
	case '7':
		d.savedX, d.savedY = d.x, d.y
	case '8':
		d.x, d.y = d.savedX, d.savedY
	case 'D':
		d.lineFeed()
	case 'E':
		d.x = 0
		d.lineFeed()
	case 'M':
		d.y = max(d.y-1, 0)
	case 'c':
		d.leaveAlternate()
	}
}

// showAlternate shows the alternate screen, which is empty.
func (d *Drawn) showAlternate() {
	if d.main == nil {
		main := d.screen
		d.main = &main
		d.screen = screen{rows: []row{{at: d.at}}}
	}
}

func (d *Drawn) leaveAlternate() {
	if d.main != nil {
		d.screen = *d.main
		d.main = nil
	}
}

// sequence takes a control sequence (ECMA-48, 8.3; xterm's "Control Sequences").
func (d *Drawn) sequence(cmd ansi.Cmd, params ansi.Params) {
	arg := func(i, other int) int {
		n, _, _ := params.Param(i, other)
		return min(n, maxRow-1)
	}
	n := max(arg(0, 1), 1)
	if cmd.Prefix() == '?' {
		for i := range params {
			switch p := arg(i, 0); {
			case p != 1049 && p != 1047 && p != 47:
			case cmd.Final() == 'h':
				d.showAlternate()
			case cmd.Final() == 'l':
				d.leaveAlternate()
			}
		}
		return
	}
	if cmd.Prefix() != 0 || cmd.Intermediate() != 0 {
		return
	}
	r := d.row()
	switch cmd.Final() {
	case 'A', 'F':
		d.y = max(d.y-n, 0)
	case 'B', 'E':
		d.y = min(d.y+n, d.Rows-1)
	case 'C', 'a':
		d.x = min(d.x+n, maxRow-1)
	case 'D':
		d.x = max(d.x-n, 0)
	case 'G', '`':
		d.x = n - 1
	case 'd':
		d.y = min(n, d.Rows) - 1
	case 'H', 'f':
		d.y, d.x = min(n, d.Rows)-1, max(arg(1, 1), 1)-1
	case 's':
		d.savedX, d.savedY = d.x, d.y
	case 'u':
		d.x, d.y = d.savedX, d.savedY
	case 'r':
		d.top, d.bottom = min(n, d.Rows)-1, min(max(arg(1, d.Rows), 1), d.Rows)
		if d.bottom-d.top < 2 || d.top == 0 && d.bottom == d.Rows {
			d.top, d.bottom = 0, 0
		}
		d.x, d.y = 0, 0
	case 'K':
		d.eraseLine(r, arg(0, 0))
	case 'J':
		d.eraseScreen(arg(0, 0))
	case 'P':
		if d.x < len(r.cells) {
			end := min(d.x+n, len(r.cells))
			r.clear(d.x, end)
			r.cells = slices.Delete(r.cells, d.x, end)
		}
	case '@':
		if d.x < len(r.cells) {
			r.cells = slices.Insert(r.cells, d.x, slices.Repeat([]rune{' '}, min(n, maxRow-len(r.cells)))...)
		}
	case 'X':
		r.clear(d.x, d.x+n)
	}
	if cmd.Final() == 'E' || cmd.Final() == 'F' {
		d.x = 0
	}
}

// eraseLine erases the rest of a line, its beginning, or all of it: 0, 1, 2.
func (d *Drawn) eraseLine(r *row, what int) {
	switch what {
	case 0:
		r.cut(d.x)
	case 1:
		r.clear(0, d.x+1)
	case 2:
		r.cut(0)
	}
}

// eraseScreen erases the screen in the same way.
func (d *Drawn) eraseScreen(what int) {
	r := d.row()
	from, to := 0, len(d.rows)
	switch what {
	case 0:
		r.cut(d.x)
		from = d.y + 1
	case 1:
		r.clear(0, d.x+1)
		to = d.y
	}
	for i := from; i < to; i++ {
		d.rows[i].cut(0)
	}
}
