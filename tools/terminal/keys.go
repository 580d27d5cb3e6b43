package terminal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// named are the keys that have names, as tmux(1) has them ("KEY BINDINGS") and as people say them, and what
// xterm sends for them.
var named = map[string]string{
	"enter": "\r", "return": "\r", "tab": "\t", "btab": "\x1b[Z", "space": " ",
	"escape": "\x1b", "esc": "\x1b", "bspace": "\x7f", "backspace": "\x7f",
	"insert": "\x1b[2~", "ic": "\x1b[2~", "delete": "\x1b[3~", "dc": "\x1b[3~",
	"pageup": "\x1b[5~", "ppage": "\x1b[5~", "pgup": "\x1b[5~", "pagedown": "\x1b[6~", "npage": "\x1b[6~",
	"pgdn": "\x1b[6~",
	"up":   "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D", "home": "\x1b[H",
	"end": "\x1b[F",
	"f1":  "\x1bOP", "f2": "\x1bOQ", "f3": "\x1bOR", "f4": "\x1bOS", "f5": "\x1b[15~", "f6": "\x1b[17~",
	"f7": "\x1b[18~", "f8": "\x1b[19~", "f9": "\x1b[20~", "f10": "\x1b[21~", "f11": "\x1b[23~",
	"f12": "\x1b[24~",
}

// Keys returns what a terminal sends for keys. A key is a character, or a name, in any case; C- or ctrl-
// before it holds Ctrl, M- or alt- holds Alt. application: the program has asked for the other codes of the
// cursor keys (DECCKM).
func Keys(keys []string, application bool) (codes []byte, err error) {
	for _, key := range keys {
		code, ok := encode(key)
		if !ok {
			return nil, fmt.Errorf("%q is not a key: use a character, a name such as Enter, Tab, Escape, "+
				"Up, PageDown or F1, or one of these after C- (Ctrl) or M- (Alt)", key)
		}
		if application && len(code) == 3 && strings.HasPrefix(code, "\x1b[") &&
			strings.ContainsAny(code[2:], "ABCDHF") {
			code = "\x1bO" + code[2:]
		}
		codes = append(codes, code...)
	}
	return codes, nil
}

func encode(key string) (code string, ok bool) {
	lower := strings.ToLower(key)
	for _, alt := range []string{"m-", "alt-", "meta-"} {
		if rest, ok := cutModifier(key, lower, alt); ok {
			code, ok := encode(rest)
			return "\x1b" + code, ok
		}
	}
	for _, ctrl := range []string{"c-", "ctrl-", "^"} {
		rest, ok := cutModifier(key, lower, ctrl)
		if !ok {
			continue
		}
		code, ok := encode(rest)
		if ok && len(code) == 1 {
			return control(code[0])
		}
		return withControl(code)
	}
	if code, ok := named[lower]; ok {
		return code, true
	}
	r, size := utf8.DecodeRuneInString(key)
	return key, size > 0 && size == len(key) && r != utf8.RuneError && !unicode.IsControl(r)
}

// cutModifier cuts a modifier off, if a key follows it.
func cutModifier(key, lower, modifier string) (rest string, ok bool) {
	return key[min(len(modifier), len(key)):], strings.HasPrefix(lower, modifier) && len(key) > len(modifier)
}

// withControl returns what xterm sends for Ctrl and a key that is not a character: ESC [ 1 ; 5 D for ESC [ D.
func withControl(code string) (string, bool) {
	switch {
	case len(code) == 3 && (strings.HasPrefix(code, "\x1b[") || strings.HasPrefix(code, "\x1bO")):
		return "\x1b[1;5" + code[2:], true
	case strings.HasPrefix(code, "\x1b[") && strings.HasSuffix(code, "~") && !strings.Contains(code, ";"):
		return strings.TrimSuffix(code, "~") + ";5~", true
	}
	return "", false
}

// control returns the character that Ctrl makes of another one.
func control(c byte) (string, bool) {
	switch {
	case c >= 'a' && c <= 'z':
		return string(rune(c - 'a' + 1)), true
	case c >= '@' && c <= '_':
		return string(rune(c - '@')), true
	case c == ' ':
		return "\x00", true
	case c == '?':
		return "\x7f", true
	}
	return "", false
}
