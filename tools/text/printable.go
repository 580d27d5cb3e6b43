package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable makes a stranger's words harmless on a terminal and in a message: characters that could move the cursor, change colours, write to the
// clipboard or turn the direction of the text become blanks, and so do the ends of lines.
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
