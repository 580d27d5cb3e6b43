package command

import (
	"runnel/tools/secrets"
	"runnel/tools/terminal"
)

// drawn gives the result of a command what stands on its terminal in the end, while the log gets all that it
// has printed. It masks secrets by itself, since the log's text has no moves of the cursor.
type drawn struct {
	stream   *textStream
	terminal terminal.Drawn
	hidden   *secrets.Stream // nil = there are none
}

func newDrawn(s *textStream, rows int) *drawn {
	d := &drawn{stream: s, hidden: s.r.out.Secrets().Stream()}
	d.terminal.Rows = rows
	d.terminal.Take = func(line []byte, at int64) {
		s.kept.SkipTo(at)
		d.keep(d.hidden.Write(line))
	}
	return d
}

// write takes output as the terminal gets it.
func (d *drawn) write(text []byte) { d.terminal.Write(text, d.stream.plain) }

// end passes on what stands on the screen.
func (d *drawn) end() {
	d.terminal.End()
	d.keep(d.hidden.Flush())
}

func (d *drawn) keep(text []byte) { _, _ = d.stream.kept.Write(text) } // never fails
