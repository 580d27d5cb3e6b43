package manual

import (
	"path"
	"regexp"
	"strings"
	"sync"
)

type kind int

const (
	heading kind = iota
	paragraph
	item  // of a list
	code  // lines as they are
	table // rows of cells; the first one names the columns
)

// block is a piece of a page. Lines of a paragraph or an item are joined by blanks.
type block struct {
	kind   kind
	level  int // of a heading: 1, 2 and so on; of other blocks: 1 if they belong to an item
	text   string
	header []string
	rows   [][]string
}

var listItem = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(-|\d+\.) +`) })

// blocks takes a page apart.
func blocks(page string) (all []block) {
	joins := false // the next line goes on with the last block
	add := func(b block) { all, joins = append(all, b), b.kind == paragraph || b.kind == item }
	inItem := false
	lines := strings.Split(strings.TrimRight(page, "\n"), "\n")
	for n := 0; n < len(lines); n++ {
		line := lines[n]
		text := strings.TrimSpace(line)
		indented := strings.HasPrefix(line, "  ")
		inItem = inItem && (indented || text == "")
		level := 0
		if inItem {
			level = 1
		}
		switch {
		case text == "":
			joins = false
		case strings.HasPrefix(text, "```"):
			indent := line[:strings.Index(line, "`")]
			var body []string
			for n++; n < len(lines) && strings.TrimSpace(lines[n]) != "```"; n++ {
				body = append(body, strings.TrimPrefix(lines[n], indent))
			}
			add(block{kind: code, level: level, text: strings.Join(body, "\n")})
		case strings.HasPrefix(line, "#"):
			title := strings.TrimLeft(line, "#")
			add(block{kind: heading, level: len(line) - len(title), text: strings.TrimSpace(title)})
		case strings.HasPrefix(line, "|"):
			t := block{kind: table, header: cells(line)}
			for n += 2; n < len(lines) && strings.HasPrefix(lines[n], "|"); n++ {
				t.rows = append(t.rows, cells(lines[n]))
			}
			n--
			add(t)
		case listItem().MatchString(line):
			inItem = true
			add(block{kind: item, text: strings.TrimSpace(listItem().ReplaceAllString(line, ""))})
		case joins:
			all[len(all)-1].text += " " + text
		default:
			add(block{kind: paragraph, level: level, text: text})
		}
	}
	return all
}

// cells returns the cells of a row: | a | b |. In a cell \| is not a border.
func cells(row string) (all []string) {
	const border = "\x00"
	row = strings.ReplaceAll(strings.Trim(strings.TrimSpace(row), "|"), `\|`, border)
	for cell := range strings.SplitSeq(row, "|") {
		all = append(all, strings.TrimSpace(strings.ReplaceAll(cell, border, "|")))
	}
	return all
}

var inlines = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("(`[^`]+`)|\\*\\*(.+?)\\*\\*|\\[([^\\]]+)\\]\\(([^)]+)\\)")
})

// spell replaces the code, the bold words and the links of a text. plain gets what stands between them and in
// links, mark what stands out.
func spell(text string, plain, mark func(string) string) string {
	var b strings.Builder
	for {
		at := inlines().FindStringSubmatchIndex(text)
		if at == nil {
			return b.String() + plain(text)
		}
		b.WriteString(plain(text[:at[0]]))
		switch {
		case at[2] >= 0:
			b.WriteString(mark(text[at[2]:at[3]]))
		case at[4] >= 0:
			b.WriteString(mark(text[at[4]:at[5]]))
		default:
			b.WriteString(spell(link(text[at[6]:at[7]], text[at[8]:at[9]]), plain, mark))
		}
		text = text[at[1]:]
	}
}

// link says in words where a link leads.
func link(words, target string) string {
	page, _, _ := strings.Cut(target, "#")
	switch name, isPage := strings.CutSuffix(page, ".md"); {
	case page == "":
		return words
	case isPage && !strings.Contains(name, "/"):
		return words + " (`runnel help " + name + "`)"
	case strings.Contains(target, "://"):
		return words + " (" + target + ")"
	default:
		if file := strings.TrimPrefix(path.Clean(target), "../../"); file != strings.Trim(words, "`") {
			return words + " (" + file + ")"
		}
		return words
	}
}
