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
	// keep is how much of an output is held to scroll back in, in bytes of memory. The rest of it is read with runnel tasks tail.
	keep = 8 << 20
	// lineCost is what a line takes beside its text, with its row.
	lineCost = 48
)

// output is the output of a task, its last part if it is long.
type output struct {
	task tasks.Task // as it was last
	over bool       // it has ended, and all of its output is there
	err  error      // why it is not followed any more
	stop func()     // ends the following

	lines   []string // harmless, without their ends; the last one may go on
	bytes   int      // what the lines take
	open    bool     // the last line goes on
	redraw  bool     // from its beginning: it ended with \r
	left    bool     // what came first is not among the lines
	width   int      // of rows
	rows    []wrapped
	dropped int // lines that were dropped since the rows were made: what rows count begins there

	first  int  // the first row that is shown
	follow bool // the last rows are shown

	find    string // what is searched for
	typing  bool   // it is being typed
	message string
}

// wrapped is a part of a line that fills a row.
type wrapped struct {
	line int // in lines, counted with those that were dropped
	text string
}

// add takes what the task has written.
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
		// A line that was drawn over with \r shows as it was last.
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

// maxLine bounds a line, in bytes: what is not cut into lines is not for eyes.
const maxLine = 16 << 10

// shorten drops the oldest lines when there are too many: an eighth of them, since the rest is copied.
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

// wrapOn makes rows of what has been added to the last line.
func (o *output) wrapOn(added string) {
	if o.width == 0 { // it has not been shown
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
		if part == "" && line != "" { // a character that is wider than the screen
			part = line
		}
		o.rows = append(o.rows, wrapped{number, part})
		if line = line[len(part):]; line == "" {
			return
		}
	}
}

// fit makes the rows for a screen of another width.
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

// lineAt is the line that a row is of.
func (o *output) lineAt(row int) int {
	if row < len(o.rows) {
		return o.rows[row].line
	}
	return o.dropped + len(o.lines)
}

// scroll shows what stands so many rows below.
func (o *output) scroll(by, height int) {
	end := max(len(o.rows)-room(height), 0)
	if o.follow {
		o.first = end
	}
	o.first = max(min(o.first+by, end), 0)
	o.follow = by > 0 && o.first == end
}

// room is how many rows of an output a screen shows: all but the title and the last line.
func room(height int) int { return max(height-2, 1) }

// seek shows the next line, or with by -1 the one before, that has what is searched for.
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

// show is what the screen shows but for its last line.
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
		rows = append(rows, row{safe("The output cannot be read any more: "+o.err.Error(), red)})
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
