package command

import "runnel/tools/terminal"

// drawn gives the result of a command what stands on its terminal in the end, while the log gets all that it
// has printed. It masks secrets by itself, since the log's text has no moves of the cursor.
type drawn struct {
	stream   *textStream
	terminal terminal.Drawn
	hidden   masks
}

func newDrawn(s *textStream, rows int) *drawn {
	d := &drawn{stream: s, hidden: s.r.masks()}
	d.terminal.Rows = rows
	d.terminal.Take = func(line []byte, at int64) {
		s.kept.SkipTo(at)
		d.keep(d.hidden.write(line))
	}
	return d
}

// write takes output as the terminal gets it.
func (d *drawn) write(text []byte) { d.terminal.Write(text, d.stream.plain) }

// end passes on what stands on the screen.
func (d *drawn) end() {
	d.terminal.End()
	d.keep(d.hidden.flush())
}

func (d *drawn) keep(text []byte) { _, _ = d.stream.kept.Write(text) } // never fails
