// Package manual holds the pages that "runnel help TOPIC" shows. They are Markdown, so that they can be read
// where they lie, too. Text turns a page into text for a terminal or a pipe, Roff into a man page of section
// 7; both stand on the same blocks.
//
// A page begins with its name as a heading and one sentence that says what it is about. Of Markdown it may
// use headings, paragraphs, lists, fenced code, tables, `code`, **bold** and links: what else there is stays
// as it is written.
package manual

import (
	"embed"
	"slices"
	"strings"
	"unicode/utf8"
)

//go:embed *.md
var pages embed.FS

// Topic is a page of the manual.
type Topic struct {
	Name  string
	About string // the page's first sentence
	page  string
}

// Topics returns all pages, in the order of their names.
func Topics() (all []Topic) {
	files, err := pages.ReadDir(".")
	if err != nil {
		panic("internal error: " + err.Error())
	}
	for _, file := range files {
		page, err := pages.ReadFile(file.Name())
		if err != nil {
			panic("internal error: " + err.Error())
		}
		lines := strings.SplitN(string(page), "\n", 4)
		all = append(all, Topic{Name: strings.TrimSuffix(file.Name(), ".md"), About: lines[2],
			page: string(page)})
	}
	return all
}

// Find returns the page with a name.
func Find(name string) (Topic, bool) {
	all := Topics()
	n := slices.IndexFunc(all, func(t Topic) bool { return t.Name == name })
	if n < 0 {
		return Topic{}, false
	}
	return all[n], true
}

const (
	bold   = "\x1b[1m"
	cyan   = "\x1b[36m"
	normal = "\x1b[0m"
	margin = 2 // columns before an item's text, and before code
)

// Text returns the page as lines of at most width columns, but for code, which stays as it is. With colors,
// headings are bold and code is cyan.
func (t Topic) Text(width int, colors bool) string {
	p := printer{width: width, colors: colors}
	for n, b := range blocks(t.page) {
		if n > 0 && (b.kind != item || p.last != item) {
			p.WriteString("\n")
		}
		indent := b.level * margin
		switch b.kind {
		case heading:
			if title := spell(b.text, as, as); colors {
				p.WriteString(bold + title + normal + "\n")
			} else {
				p.WriteString(title + "\n")
			}
		case paragraph:
			p.wrap(indent, "", b.text)
		case item:
			p.wrap(margin, "- ", b.text)
		case code:
			for line := range strings.SplitSeq(b.text, "\n") {
				p.WriteString(strings.TrimRight(strings.Repeat(" ", indent+margin)+line, " ") + "\n")
			}
		case table:
			p.table(b)
		}
		p.last = b.kind
	}
	return p.String()
}

func as(s string) string { return s }

type printer struct {
	strings.Builder
	width  int
	colors bool
	last   kind
}

// table writes a row as its first cell and, below it, the others, each after the name of its column if there
// are several.
func (p *printer) table(b block) {
	for _, row := range b.rows {
		p.wrap(0, "", row[0])
		for n, cell := range row[1:] {
			if cell == "" || cell == "–" {
				continue
			}
			if name := b.header[n+1]; len(row) > 2 && name != "meaning" {
				cell = name + ": " + cell
			}
			p.wrap(2*margin, "", cell)
		}
	}
}

// wrap writes text in lines that begin after indent columns; first stands in the indent of the first line.
func (p *printer) wrap(indent int, first, text string) {
	words := strings.Fields(spell(text, as, p.marked))
	p.WriteString(strings.Repeat(" ", indent-len(first)) + first)
	at := indent
	for n, word := range words {
		size := utf8.RuneCountInString(strings.NewReplacer(cyan, "", normal, "").Replace(word))
		switch {
		case n > 0 && at+1+size > p.width:
			p.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		case n > 0:
			p.WriteString(" ")
			at++
		}
		p.WriteString(word)
		at += size
	}
	p.WriteString("\n")
}

// marked is code or a bold text. A terminal shows its colour, word by word because lines end between words; a
// pipe shows the code's quotes.
func (p *printer) marked(text string) string {
	if !p.colors {
		return text
	}
	words := strings.Fields(strings.Trim(text, "`"))
	for n, word := range words {
		words[n] = cyan + word + normal
	}
	return strings.Join(words, " ")
}
