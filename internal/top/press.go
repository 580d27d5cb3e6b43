package top

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"runnel/internal/term"
)

// help says what the keys do.
var help = []row{
	{{"In the table", bold}},
	{{"  up down j k    select a task (also PgUp, PgDn, Home, End, g, G)", plain}},
	{{"  Enter          follow its output", plain}},
	{{"  c              cancel it", plain}},
	{{"  r              run it again, until this screen is left", plain}},
	{{"  a              answer the question that it asks", plain}},
	{{"  /              show the tasks with some text: tool, host, arguments, output", plain}},
	{{"  ! t h          show those that failed, of its tool, of its host", plain}},
	{{"  Esc            show all", plain}},
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
		switch u.asking = ""; {
		case k == 'y' || k == 'Y':
			u.agreed()
		case (k == 'n' || k == 'N') && u.refused != nil:
			u.refused()
		}
	case u.output != nil && u.output.typing:
		u.output.edit(k, height)
	case u.output == nil && u.typing:
		u.typing = edit(&u.table.filter.text, k)
		u.table.choose()
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
	before := t.filter
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
		u.askCancel(t.id)
	case 'r':
		u.askAgain(t.id)
	case 'a':
		u.ask(t.id)
	case '/':
		u.typing, t.filter.text = true, ""
	case '!':
		t.filter.failed = !t.filter.failed
	case 't', 'h':
		switch task := t.find(t.id); {
		case task == nil:
		case k == 't':
			pick(&t.filter.tool, task.Tool)
		case task.Client == "":
			u.message = fmt.Sprintf("no host of %.8s is known", t.id)
		default:
			pick(&t.filter.host, task.Client)
		}
	case keyEscape:
		t.filter = filter{}
	case 'q':
		u.done = true
	}
	if t.filter != before {
		t.choose()
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
		u.askCancel(o.task.ID)
	case 'r':
		u.askAgain(o.task.ID)
	case 'a':
		u.ask(o.task.ID)
	case 'q', keyEscape:
		o.stop()
		u.output = nil
	}
}

// confirm shows a question, whose answer is the next key: y, n or, for neither, any other.
func (u *ui) confirm(question string, agreed, refused func()) {
	u.asking, u.agreed, u.refused = question, agreed, refused
}

// askCancel asks the user to confirm that a task is cancelled.
func (u *ui) askCancel(id string) {
	switch t := u.table.find(id); {
	case id == "":
	case t == nil || t.Status.Terminal():
		u.message = fmt.Sprintf("%.8s has ended", id)
	default:
		u.confirm(fmt.Sprintf("cancel %.8s?", id), func() { u.cancel(id) }, nil)
	}
}

// askAgain asks the user to confirm that a task is run again.
func (u *ui) askAgain(id string) {
	if t := u.table.find(id); t != nil {
		call := strings.TrimSpace(t.Tool + " " + term.Shorten(term.Plain(arguments(t))))
		u.confirm("run "+call+" again?", func() { u.again(id) }, nil)
	}
}

// maxFind bounds the text to search for, in bytes.
const maxFind = 200

// edit handles a key while the text to search for is typed.
func (o *output) edit(k key, height int) {
	if o.typing = edit(&o.find, k); !o.typing {
		o.seek(1, height)
	}
}

// edit handles a key while a text is typed, and reports whether more may come. Escape deletes the text.
func edit(text *string, k key) (typing bool) {
	switch {
	case k == keyEnter:
		return false
	case k == keyEscape:
		*text = ""
		return false
	case k == keyDelete || k == '\b':
		_, n := utf8.DecodeLastRuneInString(*text)
		*text = (*text)[:len(*text)-n]
	case unicode.IsPrint(rune(k)) && len(*text) < maxFind:
		*text += string(rune(k))
	}
	return true
}

// key is a key that a person pressed: a character, or one of these.
type key rune

const (
	keyUp key = -1 - iota
	keyDown
	keyPageUp
	keyPageDown
	keyHome
	keyEnd
	keyOther // a key that has no meaning here

	keyInterrupt key = 'C' - '@' // Ctrl-C, which sends no signal in raw mode
	keyRedraw    key = 'L' - '@'
	keyEnter     key = '\r'
	keyStop      key = 'Z' - '@'
	keyEscape    key = 0x1b
	keyDelete    key = 0x7f
)

// sequences maps what keys send after ESC [ or ESC O to the key.
var sequences = map[string]key{
	"A": keyUp, "B": keyDown, "5~": keyPageUp, "6~": keyPageDown,
	"H": keyHome, "1~": keyHome, "7~": keyHome, "F": keyEnd, "4~": keyEnd, "8~": keyEnd,
}

// readKey returns the first key in what was typed, and its length in bytes: 0 while the rest of the key may
// still come. If late is set, nothing more comes.
func readKey(typed []byte, late bool) (k key, n int) {
	switch {
	case typed[0] != byte(keyEscape):
		if !late && !utf8.FullRune(typed) {
			return 0, 0
		}
		r, n := utf8.DecodeRune(typed)
		if r == '\n' {
			r = '\r'
		}
		return key(r), n
	case len(typed) == 1 && !late:
		return 0, 0
	case len(typed) == 1 || typed[1] != '[' && typed[1] != 'O':
		return keyEscape, 1
	}
	// "The Final Byte ... is represented by a bit combination from 04/00 to 07/14" (ECMA-48, 5.4)
	end := bytes.IndexFunc(typed[2:], func(r rune) bool { return '@' <= r && r <= '~' })
	switch {
	case end < 0 && late:
		return keyOther, len(typed)
	case end < 0:
		return 0, 0
	}
	if k, ok := sequences[string(typed[2:end+3])]; ok {
		return k, end + 3
	}
	return keyOther, end + 3
}
