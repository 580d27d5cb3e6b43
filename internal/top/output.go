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
	// keep is how much of an output is held for scrolling, in bytes of memory. runnel tasks tail shows all of it.
	keep = 8 << 20
	// lineCost is how much memory a line takes beside its text, with its row.
	lineCost = 48
)

// output is the output of a task, or the last part of a long one.
type output struct {
	task tasks.Task // its last known state
	over bool       // the task has ended, and all of its output is here
	err  error      // why the task is no longer followed
	stop func()     // stops following it

	lines   []string // made harmless, without line ends; the last one may be incomplete
	bytes   int      // the memory that the lines take
	open    bool     // the last line is incomplete
	redraw  bool     // the last line ended with \r: new text replaces it
	left    bool     // the beginning of the output is not among the lines
	width   int      // the rows' width; 0 = it has not been shown
	rows    []wrapped
	dropped int // how many lines have been dropped: rows count lines from there

	first  int  // the first row that is shown
	follow bool // the last rows are shown

	find    string // the text to search for
	typing  bool   // the text is being typed
	message string
}

// wrapped is the part of a line that fills one row.
type wrapped struct {
	line int // its number, including the lines that were dropped
	text string
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
		o.text(text)
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
			o.unwrap()
		}
		o.redraw = drawsOver && !whole
		line = line[:min(len(line), maxLine)]
		line = term.Printable(strings.ReplaceAll(line, "\t", "    "))
		line = shorten.Cut(line, maxLine-len(*last))
		*last += line
		o.bytes += len(line)
		o.wrapOn(line)
		o.open = !whole
	}
}

// maxLine bounds a line, in bytes: longer lines are not meant for people.
const maxLine = 16 << 10

// shorten drops the oldest lines when there are too many: an eighth of them at a time, since the rest is copied.
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
	o.dropped += n
	rows := 0
	for rows < len(o.rows) && o.rows[rows].line < o.dropped {
		rows++
	}
	o.rows = append([]wrapped(nil), o.rows[rows:]...)
	o.first = max(o.first-rows, 0)
}

// unwrap drops the rows of the last line.
func (o *output) unwrap() {
	for n := len(o.rows); n > 0 && o.rows[n-1].line == o.dropped+len(o.lines)-1; n-- {
		o.rows = o.rows[:n-1]
	}
}

// wrapOn makes rows for text that was added to the last line.
func (o *output) wrapOn(added string) {
	if o.width == 0 {
		return
	}
	number := o.dropped + len(o.lines) - 1
	if n := len(o.rows); n > 0 && o.rows[n-1].line == number {
		added = o.rows[n-1].text + added
		o.rows = o.rows[:n-1]
	}
	o.wrap(number, added)
}

// wrap appends the rows of a line.
func (o *output) wrap(number int, line string) {
	for {
		part := term.Clip(line, o.width)
		if part == "" && line != "" { // a character wider than the screen
			part = line
		}
		o.rows = append(o.rows, wrapped{number, part})
		if line = line[len(part):]; line == "" {
			return
		}
	}
}

// fit makes the rows anew if the screen has another width.
func (o *output) fit(width int) {
	if width = max(width, 1); width == o.width {
		return
	}
	at := o.lineAt(o.first)
	o.width, o.rows = width, o.rows[:0]
	for i, line := range o.lines {
		o.wrap(o.dropped+i, line)
	}
	for o.first = 0; o.first < len(o.rows) && o.rows[o.first].line < at; o.first++ {
	}
}

// lineAt returns the number of the line that a row shows.
func (o *output) lineAt(row int) int {
	if row < len(o.rows) {
		return o.rows[row].line
	}
	return o.dropped + len(o.lines)
}

// scroll moves the view down by some rows.
func (o *output) scroll(by, height int) {
	end := max(len(o.rows)-room(height), 0)
	if o.follow {
		o.first = end
	}
	o.first = max(min(o.first+by, end), 0)
	o.follow = by > 0 && o.first == end
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
	from := o.lineAt(o.first) - o.dropped
	for n := range o.lines {
		i := ((from+by*(n+1))%len(o.lines) + len(o.lines)) % len(o.lines)
		if at, _ := index(o.lines[i], o.find); at < 0 {
			continue
		}
		o.follow = false
		for o.first = 0; o.lineAt(o.first) < o.dropped+i; o.first++ {
		}
		o.message = ""
		return
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
	r := row{safe(fmt.Sprintf("%s %.8s  ", o.task.Tool, o.task.ID), bold), {word, color}, {"  " + term.Age(took), plain}}
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
	o.fit(width)
	rows := []row{o.title(now)}
	if o.follow {
		o.first = max(len(o.rows)-room(height), 0)
	}
	o.first = max(min(o.first, len(o.rows)-1), 0)
	for _, r := range o.rows[o.first:min(o.first+room(height), len(o.rows))] {
		rows = append(rows, marked(r.text, o.find))
	}
	switch {
	case o.err != nil:
		rows = append(rows, row{safe("The output can no longer be read: "+o.err.Error(), red)})
	case o.over && len(o.rows) == 0:
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
	case !o.follow && len(o.rows) > 0:
		where = fmt.Sprintf("%d/%d", o.first+1, len(o.rows))
	case !o.over:
		where = "following"
	}
	return row{{where + "  ", plain}, {"q back  / search  f follow  c cancel  ? help", dim}}
}
