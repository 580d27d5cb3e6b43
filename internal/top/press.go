package top

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// help says what the keys do.
var help = []row{
	{{"In the table", bold}},
	{{"  up down j k    select a task (also PgUp, PgDn, Home, End, g, G)", plain}},
	{{"  Enter          follow its output", plain}},
	{{"  c              cancel it", plain}},
	{{"  q, Ctrl-C      leave; the tasks go on", plain}},
	nil,
	{{"In an output", bold}},
	{{"  up down j k    scroll (also PgUp, PgDn, Home, End, g, G)", plain}},
	{{"  f              follow the output as it comes", plain}},
	{{"  /              search; n the next match, N the one before", plain}},
	{{"  q, Esc         back to the table", plain}},
	nil,
	{{"In both", bold}},
	{{"  Ctrl-L         redraw the screen", plain}},
	{{"  Ctrl-Z         suspend; fg resumes", plain}},
}

// press handles a key.
func (u *ui) press(k key) {
	_, height := u.screen.size()
	u.message = ""
	switch {
	case k == keyInterrupt:
		u.done = true
	case k == keyStop:
		u.stop = true
	case k == keyRedraw:
		u.screen.redraw()
	case u.help:
		u.help = false
	case u.asking != "":
		id := u.asking
		if u.asking = ""; k == 'y' || k == 'Y' {
			u.cancel(id)
		}
	case u.output != nil && u.output.typing:
		u.output.edit(k, height)
	case k == '?':
		u.help = true
	case u.output != nil:
		u.pressOutput(k, height)
	default:
		u.pressTable(k, height)
	}
}

func (u *ui) pressTable(k key, height int) {
	t := &u.table
	switch page := max(height-4, 1); k {
	case keyUp, 'k':
		t.move(-1)
	case keyDown, 'j':
		t.move(1)
	case keyPageUp:
		t.move(-page)
	case keyPageDown, ' ':
		t.move(page)
	case keyHome, 'g':
		t.move(-len(t.tasks))
	case keyEnd, 'G':
		t.move(len(t.tasks))
	case keyEnter:
		if len(t.tasks) > 0 {
			u.open(t.tasks[t.selected])
		}
	case 'c':
		if len(t.tasks) > 0 {
			u.ask(t.tasks[t.selected].ID)
		}
	case 'q':
		u.done = true
	}
}

func (u *ui) pressOutput(k key, height int) {
	o := u.output
	o.message = ""
	switch page := room(height); k {
	case keyUp, 'k':
		o.scroll(-1, height)
	case keyDown, 'j', keyEnter:
		o.scroll(1, height)
	case keyPageUp, 'b':
		o.scroll(-page, height)
	case keyPageDown, ' ':
		o.scroll(page, height)
	case keyHome, 'g':
		o.first, o.follow = position{}, false
	case keyEnd, 'G', 'f':
		o.follow = true
	case '/':
		o.typing, o.find = true, ""
	case 'n':
		o.seek(1, height)
	case 'N':
		o.seek(-1, height)
	case 'c':
		u.ask(o.task.ID)
	case 'q', keyEscape:
		o.stop()
		u.output = nil
	}
}

// ask asks the user to confirm that a task is cancelled.
func (u *ui) ask(id string) {
	if t := u.table.find(id); t == nil || t.Status.Terminal() {
		u.message = fmt.Sprintf("%.8s has ended", id)
		return
	}
	u.asking = id
}

// maxFind bounds the text to search for, in bytes.
const maxFind = 200

// edit handles a key while the text to search for is typed.
func (o *output) edit(k key, height int) {
	switch {
	case k == keyEnter:
		o.typing = false
		o.seek(1, height)
	case k == keyEscape:
		o.typing, o.find = false, ""
	case k == keyDelete || k == '\b':
		_, n := utf8.DecodeLastRuneInString(o.find)
		o.find = o.find[:len(o.find)-n]
	case unicode.IsPrint(rune(k)) && len(o.find) < maxFind:
		o.find += string(rune(k))
	}
}
