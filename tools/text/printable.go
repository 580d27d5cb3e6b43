package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable makes a stranger's text harmless on a terminal and in a message: it replaces by blanks the line ends and the characters that could
// move the cursor, change colours, write to the clipboard or change the direction of the text.
func Printable(s string) string {
	return strings.ReplaceAll(PrintableLines(s), "\n", " ")
}

// PrintableLines is Printable for text of several lines.
func PrintableLines(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && unicode.IsControl(r) || r == utf8.RuneError || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) {
			return ' '
		}
		return r
	}, s)
}
