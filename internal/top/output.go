package top

import (
	"fmt"
	"strings"
	"time"

	"runnel/internal/shorten"
	"runnel/internal/term"
	"runnel/partials"
	"runnel/tasks"
)

const (
	// keep is how much of an output is held for scrolling, in bytes of memory. runnel tasks tail shows all of
	// it.
	keep = 8 << 20
	// lineCost is how much memory a line takes beside its text.
	lineCost = 16
)

// output is the output of a task, or the last part of a long one.
type output struct {
	task tasks.Task // its last known state
	over bool       // the task has ended, and all of its output is here
	err  error      // why the task is no longer followed
	stop func()     // stops following it

	shown  *term.Output
	lines  []string // made harmless, without line ends, with their colours; the last one may be incomplete
	bytes  int      // the memory that the lines take
	open   bool     // the last line is incomplete
	redraw bool     // the last line ended with \r: new text replaces it
	left   bool     // the beginning of the output is not among the lines

	width  int      // of the screen
	first  position // of the first row that is shown
	follow bool     // the last rows are shown

	find    string // the text to search for
	typing  bool   // the text is being typed
	message string
}

// position is a row of the output: a line, and which row of that line.
type position struct{ line, row int }

func (p position) before(other position) bool {
	return p.line < other.line || p.line == other.line && p.row < other.row
}

// add appends what the task has written.
func (o *output) add(b partials.Batch) {
	for _, c := range b.Chunks() {
		text := string(c.Data)
		if c.Kind == partials.Item {
			var isText bool
			if text, isText, _ = term.Item(c.Data); !isText {
				o.open = false // a line about an item begins at the margin
			}
		}
		o.text(o.shown.Clean(text))
	}
	o.shorten()
}

// text appends text to the lines.
func (o *output) text(added string) {
	for line := range strings.Lines(added) {
		whole := strings.HasSuffix(line, "\n")
		line, drawsOver := strings.CutSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if !o.open {
			o.lines = append(o.lines, "")
			o.bytes += lineCost
		}
		last := &o.lines[len(o.lines)-1]
		// A line that was overwritten with \r shows its last state.
		at := strings.LastIndexByte(line, '\r')
		if at >= 0 || o.redraw && line != "" {
			o.bytes -= len(*last)
			*last, line = "", line[at+1:]
		}
		o.redraw = drawsOver && !whole
		line = strings.ReplaceAll(line, "\t", "    ")
		if len(*last)+len(line) > maxLine { // not in the middle of a colour
			line = shorten.Cut(term.Plain(line), max(maxLine-len(*last), 0))
		}
		*last += line
		o.bytes += len(line)
		o.open = !whole
	}
}

// maxLine bounds a line, in bytes: longer lines are not meant for people.
const maxLine = 16 << 10

// shorten drops the oldest lines when there are too many: an eighth of them at a time, since the rest is
// copied.
func (o *output) shorten() {
	if o.bytes <= keep {
		return
	}
	n := 0
	for o.bytes > keep-keep/8 && n < len(o.lines)-1 {
		o.bytes -= len(o.lines[n]) + lineCost
		n++
	}
	o.left = true
	o.lines = append([]string(nil), o.lines[n:]...)
	if o.first.line -= n; o.first.line < 0 {
		o.first = position{}
	}
}

// rows splits a line into rows as wide as the screen, at least one. A row begins with the colours of the one
// before it.
func (o *output) rows(line int) (rows []string) {
	colors := ""
	for rest := o.lines[line]; ; {
		row := term.Clip(rest, o.width)
		if row == "" { // the line is empty, or a character is wider than the screen
			row = rest
		}
		rows = append(rows, colors+row)
		if at := strings.LastIndexByte(row, '\x1b'); at >= 0 {
			colors = row[at : at+strings.IndexByte(row[at:], 'm')+1]
		}
		if rest = rest[len(row):]; rest == "" {
			return rows
		}
	}
}

// move returns the position some rows below another one, or above it; the output's ends stop it.
func (o *output) move(p position, by int) position {
	for ; by > 0; by-- {
		switch {
		case p.row+1 < len(o.rows(p.line)):
			p.row++
		case p.line+1 < len(o.lines):
			p = position{line: p.line + 1}
		}
	}
	for ; by < 0; by++ {
		switch {
		case p.row > 0:
			p.row--
		case p.line > 0:
			p = position{p.line - 1, len(o.rows(p.line-1)) - 1}
		}
	}
	return p
}

// end returns the position from which on the last rows fill a screen.
func (o *output) end(height int) position {
	last := len(o.lines) - 1
	if last < 0 {
		return position{}
	}
	return o.move(position{last, len(o.rows(last)) - 1}, 1-room(height))
}

// scroll moves the view down by some rows, or up.
func (o *output) scroll(by, height int) {
	end := o.end(height)
	if o.follow {
		o.first = end
	}
	if len(o.lines) > 0 {
		o.first = o.move(o.first, by)
	}
	if o.follow = by > 0 && !o.first.before(end); o.follow {
		o.first = end
	}
}

// room returns how many rows of an output fit on a screen: all but the title and the last line.
func room(height int) int { return max(height-2, 1) }

// seek shows the next line that contains the text to search for or, with by -1, the previous one.
func (o *output) seek(by, height int) {
	if o.find == "" {
		return
	}
	if o.follow {
		o.scroll(0, height)
	}
	for n := range o.lines {
		i := ((o.first.line+by*(n+1))%len(o.lines) + len(o.lines)) % len(o.lines)
		if at, _ := index(term.Plain(o.lines[i]), o.find); at >= 0 {
			o.first = position{line: i}
			o.follow = false
			o.message = ""
			return
		}
	}
	o.message = "not found: " + o.find
}

// title is the first line of the screen.
func (o *output) title(now time.Time) row {
	word, color := status(&o.task)
	took := now.Sub(o.task.CreatedAt)
	if o.task.Status.Terminal() {
		took = o.task.UpdatedAt.Sub(o.task.CreatedAt)
	}
	r := row{safe(fmt.Sprintf("%s %.8s  ", o.task.Tool, o.task.ID), bold), {word, color},
		{"  " + term.Age(took), plain}}
	says, _, _ := strings.Cut(o.task.StatusMessage, "\n")
	if o.task.Status.Terminal() && says != "" {
		r = append(r, safe("  "+says, color))
	}
	if o.left {
		r = append(r, span{"  (the end of a long output)", dim})
	}
	return r
}

// show returns the rows of the screen, except the last one.
func (o *output) show(width, height int, now time.Time) []row {
	o.width = max(width, 1)
	rows := []row{o.title(now)}
	if o.follow {
		o.first = o.end(height)
	}
	for line, skip := o.first.line, o.first.row; line < len(o.lines) && len(rows) <= room(height); line++ {
		texts := o.rows(line)
		for _, text := range texts[min(skip, len(texts)-1):] { // the line may have fewer rows now
			rows = append(rows, marked(text, o.find))
		}
		skip = 0
	}
	rows = rows[:min(len(rows), 1+room(height))]
	switch {
	case o.err != nil:
		rows = append(rows, row{safe("The output can no longer be read: "+o.err.Error(), red)})
	case o.over && len(o.lines) == 0:
		rows = append(rows, row{{"(no output)", dim}})
	}
	return rows
}

// foot is the last line of the screen.
func (o *output) foot() row {
	switch {
	case o.typing:
		return row{safe("/"+o.find, plain), {" ", inverse}}
	case o.message != "":
		return row{safe(o.message, yellow)}
	}
	where := "end"
	switch {
	case !o.follow && len(o.lines) > 0:
		where = fmt.Sprintf("%d/%d", o.first.line+1, len(o.lines))
	case !o.over:
		where = "following"
	}
	return row{{where + "  ", plain}, {"q back  / search  f follow  c cancel  r run again  ? help", dim}}
}
