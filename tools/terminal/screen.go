package terminal

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"

	"runnel/tools/text"
)

// Screen is what a terminal shows, and which of its lines are new. It takes some 5 MB. It has one owner.
type Screen struct {
	emulator    *vt.Emulator
	application bool // the cursor keys send their other codes

	before    []string // the rows at the last News
	alternate bool     // the screen was the alternate one then
	passed    int      // lines that have left the top since
	news      news     // of them
}

// NewScreen makes an empty one. answer gets what a terminal sends back when a program asks where the cursor
// is, or what the terminal is; nil = nothing does.
func NewScreen(columns, rows int, answer func(code string)) *Screen {
	s := &Screen{emulator: vt.NewEmulator(columns, rows)}
	s.emulator.SetCallbacks(vt.Callbacks{
		EnableMode:  func(m ansi.Mode) { s.application = s.application || m == ansi.ModeCursorKeys },
		DisableMode: func(m ansi.Mode) { s.application = s.application && m != ansi.ModeCursorKeys },
	})
	// The emulator's own answers go to a pipe, where it waits for a reader: these come instead.
	for command, code := range map[int]func(ansi.Params) string{
		// A VT220 with colours.
		'c':                         func(ansi.Params) string { return "\x1b[?62;22c" },
		ansi.Command('>', 0, 'c'):   func(ansi.Params) string { return "\x1b[>1;10;0c" },
		'n':                         s.status,
		ansi.Command('?', 0, 'n'):   nil,
		ansi.Command(0, '$', 'p'):   nil,
		ansi.Command('?', '$', 'p'): nil,
	} {
		s.emulator.RegisterCsiHandler(command, func(params ansi.Params) bool {
			if answer != nil && code != nil {
				answer(code(params))
			}
			return true
		})
	}
	return s
}

// status answers a device status report: that all is well, or where the cursor is.
func (s *Screen) status(params ansi.Params) string {
	switch what, _, _ := params.Param(0, 0); what {
	case 5:
		return "\x1b[0n"
	case 6:
		at := s.emulator.CursorPosition()
		return fmt.Sprintf("\x1b[%d;%dR", at.Y+1, at.X+1)
	}
	return ""
}

// Write shows a piece of a log. limit bounds the text that News returns of the lines that leave the top.
func (s *Screen) Write(log []byte, limit int) {
	for piece := range Pieces(log) {
		if piece.Columns > 0 {
			s.emulator.Resize(piece.Columns, piece.Rows)
		} else {
			s.show(piece.Sent, limit)
		}
	}
}

// writePiece is how much the emulator takes at once, in bytes: fewer lines than it keeps of what has left the
// top.
const writePiece = 4 << 10

// show gives the emulator what a terminal is sent, and takes the lines that leave the top.
func (s *Screen) show(p []byte, limit int) {
	for len(p) > 0 {
		n := min(len(p), writePiece)
		_, _ = s.emulator.Write(p[:n])
		p = p[n:]
		for _, line := range s.emulator.Scrollback().Lines() {
			known := !s.alternate && s.passed < len(s.before) &&
				s.before[s.passed] == strings.TrimRight(line.String(), " ")
			s.passed++
			s.news.add(strings.TrimRight(line.String(), " "), !known, limit)
		}
		s.emulator.ClearScrollback()
	}
}

// Application reports whether the program has asked for the other codes of the cursor keys: see Keys.
func (s *Screen) Application() bool { return s.application }

// Alternate reports whether the program draws the whole screen, as editors do.
func (s *Screen) Alternate() bool { return s.emulator.IsAltScreen() }

// rows returns the lines of the screen, without blanks at their ends.
func (s *Screen) rows() []string {
	rows := strings.Split(s.emulator.String(), "\n")
	for i := range rows {
		rows[i] = strings.TrimRight(rows[i], " \r")
	}
	return rows
}

// Text returns the screen, without the empty lines at its end, and the row and the column of the cursor, from
// 1.
func (s *Screen) Text() (screen string, row, column int) {
	at := s.emulator.CursorPosition()
	return strings.TrimRight(strings.Join(s.rows(), "\n"), "\n"), at.Y + 1, at.X + 1
}

// Size returns the size of the screen.
func (s *Screen) Size() (columns, rows int) { return s.emulator.Width(), s.emulator.Height() }

// News returns the lines that differ from those at the last call, from top to bottom: those that have left
// the top since, and those on the screen. Of much, it is head and tail.
func (s *Screen) News(limit int) string {
	rows, alternate := s.rows(), s.emulator.IsAltScreen()
	known := s.before[min(s.passed, len(s.before)):]
	if alternate != s.alternate {
		known = nil
	}
	for n, row := range rows {
		s.news.add(row, n >= len(known) || known[n] != row, limit)
	}
	said := s.news.text(limit)
	s.before, s.alternate, s.passed, s.news = rows, alternate, 0, news{}
	return said
}

// news is a text of the lines that are new, with the empty ones between two of them.
type news struct {
	shaper *text.Shaper // nil: none yet
	follow bool         // the last line that is not empty is in it
	blank  int          // empty lines since
}

// maxBlank is how many empty lines it has in a row.
const maxBlank = 3

func (w *news) add(line string, fresh bool, limit int) {
	switch {
	case line == "":
		w.blank++
		return
	case fresh && w.shaper == nil:
		w.shaper = &text.Shaper{Limit: limit}
	case fresh && w.follow:
		_, _ = w.shaper.Write([]byte(strings.Repeat("\n", min(w.blank, maxBlank))))
	}
	if fresh {
		_, _ = w.shaper.Write([]byte(line + "\n"))
	}
	w.follow, w.blank = fresh, 0
}

func (w *news) text(limit int) string {
	if w.shaper == nil {
		return ""
	}
	said, _ := w.shaper.Text(limit, text.Gap.Words)
	return said
}
