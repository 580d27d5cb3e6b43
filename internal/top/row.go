package top

import (
	"slices"
	"strings"

	"runnel/internal/term"
)

// row is one line of the screen.
type row []span

// span is a piece of a row in one style. Its text is harmless.
type span struct {
	text string
	look look
}

// look is the parameter of a terminal's SGR sequence (ECMA-48, 8.3.117).
type look string

const (
	plain   look = ""
	bold    look = "1"
	dim     look = "2"
	inverse look = "7"
	red     look = "31"
	green   look = "32"
	yellow  look = "33"
)

// isColor reports whether a look is a colour, which NO_COLOR turns off.
func (l look) isColor() bool { return strings.HasPrefix(string(l), "3") }

// safe makes a span of words that a stranger may have chosen.
func safe(text string, l look) span {
	return span{term.Plain(strings.ReplaceAll(text, "\t", "    ")), l}
}

// cell makes a span that fills a column.
func cell(text string, width int, l look) span {
	s := safe(text, l)
	s.text = term.Clip(s.text, width)
	s.text += strings.Repeat(" ", max(width-term.Columns(s.text), 0)+1)
	return s
}

// marked is a row in which the matches of a search stand out.
func marked(text, find string) row {
	if find == "" {
		return row{{text, plain}}
	}
	text = term.Plain(text)
	var r row
	for text != "" {
		at, end := index(text, find)
		if at < 0 {
			break
		}
		r = append(r, span{text[:at], plain}, span{text[at:end], inverse})
		text = text[end:]
	}
	return append(r, span{text, plain})
}

// index returns where text contains find, -1 if it does not. A find in lower case also matches capital
// letters.
func index(text, find string) (begin, end int) {
	if strings.ToLower(find) == find {
		// ASCII only: elsewhere, the other case may take another number of bytes.
		folded := strings.Map(lower, text)
		if len(folded) == len(text) {
			text = folded
		}
	}
	at := strings.Index(text, find)
	return at, at + len(find)
}

// lower returns the small letter of a capital letter of ASCII, and any other character as it is.
func lower(r rune) rune {
	if 'A' <= r && r <= 'Z' {
		return r + 'a' - 'A'
	}
	return r
}

// fill adds blank rows up to the height of the screen, and foot as the last one.
func fill(rows []row, height int, foot row) []row {
	rows = rows[:min(len(rows), max(height-1, 0))]
	rows = slices.Grow(rows, height)
	for len(rows) < height-1 {
		rows = append(rows, nil)
	}
	return append(rows, foot)
}
