package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable makes a stranger's text harmless on a terminal and in a message: it replaces by blanks the line
// ends and the characters that could move the cursor, change colours, write to the clipboard, change the
// direction of the text or hide in it.
func Printable(s string) string {
	return strings.ReplaceAll(PrintableLines(s), "\n", " ")
}

// PrintableLines is Printable for text of several lines.
func PrintableLines(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && unicode.IsControl(r) || r == utf8.RuneError || hides(r) {
			return ' '
		}
		return r
	}, s)
}

// hides reports whether a character is not seen itself: it has no width, joins or separates others, changes
// their direction, or ends a line. The sixteen variation selectors that choose between a letter's and an
// emoji's look do no harm.
func hides(r rune) bool {
	return unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point) &&
		!unicode.Is(unicode.Prepended_Concatenation_Mark, r) ||
		unicode.Is(unicode.Variation_Selector, r) && (r < 0xfe00 || r > 0xfe0f)
}
