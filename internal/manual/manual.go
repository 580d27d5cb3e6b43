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
