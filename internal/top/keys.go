package top

import (
	"bytes"
	"unicode/utf8"
)

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
