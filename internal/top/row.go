package top

import (
	"slices"
	"strings"

	"runnel/internal/term"
)

// row is a line of the screen.
type row []span

// span is a piece of a row that looks alike. Its text is harmless.
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

// isColor reports whether a look is left out where no colours are wanted.
func (l look) isColor() bool { return strings.HasPrefix(string(l), "3") }

// safe makes a span of words that somebody else may have chosen.
func safe(text string, l look) span {
	return span{term.Printable(strings.ReplaceAll(text, "\t", "    ")), l}
}

// cell is text that fills a column.
func cell(text string, width int, l look) span {
	s := safe(text, l)
	s.text = term.Clip(s.text, width)
	s.text += strings.Repeat(" ", max(width-term.Columns(s.text), 0)+1)
	return s
}

// marked is a row with parts that look different: those that a search has found.
func marked(text, find string) row {
	if find == "" {
		return row{{text, plain}}
	}
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

// index finds text, in whatever case if that is written in lower case, and returns where it begins and ends.
func index(text, find string) (begin, end int) {
	if strings.ToLower(find) == find {
		// Character for character: one of another case may take another number of bytes.
		folded := strings.Map(lower, text)
		if len(folded) == len(text) {
			text = folded
		}
	}
	at := strings.Index(text, find)
	return at, at + len(find)
}

// lower is the small letter of a large one of ASCII, and others as they are.
func lower(r rune) rune {
	if 'A' <= r && r <= 'Z' {
		return r + 'a' - 'A'
	}
	return r
}

// fill makes rows as high as the screen, with foot as the last one.
func fill(rows []row, height int, foot row) []row {
	rows = rows[:min(len(rows), max(height-1, 0))]
	rows = slices.Grow(rows, height)
	for len(rows) < height-1 {
		rows = append(rows, nil)
	}
	return append(rows, foot)
}
