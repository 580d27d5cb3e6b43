package command

import (
	"bytes"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"

	"runnel/tools/config"
	"runnel/tools/text"
)

// checkProgress checks the key "progress". Parsing finds all that is wrong with a regular expression; compiling it takes twice
// as long, and waits for a call.
func checkProgress(pattern string) error {
	if pattern == "" {
		return nil
	}
	re, err := syntax.Parse(pattern, syntax.Perl) // as regexp.Compile does
	if err != nil {
		return &config.Error{Key: "progress", Problem: err.Error(), Allowed: "a regular expression as Go knows them (RE2)"}
	}
	if n := re.MaxCap(); n != 1 && n != 2 {
		return &config.Error{Key: "progress", Problem: fmt.Sprintf("has %d groups", n), Allowed: "one group (percent) or two (done, total)"}
	}
	return nil
}

// progressMarks finds how far a command is in what it prints: in a line, and in one that a \r has begun to draw over, while it is drawn.
type progressMarks struct {
	marks  *regexp.Regexp
	report func(done, total float64, message string)

	line   []byte // the unfinished line
	redraw bool   // a \r has begun it
	done   float64
	total  float64
}

// maxMarks is how much of the end of what is printed at once is searched: no progress bar is longer, and to search all of a fast log took
// twelve times as long as reading it.
const maxMarks = 4 << 10

// newProgressMarks takes a pattern that was checked.
func newProgressMarks(pattern string, report func(done, total float64, message string)) *progressMarks {
	return &progressMarks{marks: regexp.MustCompile(pattern), report: report}
}

// scan looks for the newest mark in what has come next: from its end on.
func (m *progressMarks) scan(text []byte) {
	const lineEnds = "\r\n"
	text = append(m.line, text[max(0, len(text)-maxMarks):]...)
	text = text[max(0, len(text)-maxMarks):]
	end := bytes.LastIndexAny(text, lineEnds)
	if end >= 0 {
		m.redraw = text[end] == '\r'
	}
	for found, stop := false, end; stop >= 0 && !found; {
		start := bytes.LastIndexAny(text[:stop], lineEnds) + 1
		found = m.match(text[start:stop])
		stop = start - 1
	}
	if m.redraw {
		m.match(text[end+1:])
	}
	m.line = append(m.line[:0], text[end+1:]...)
}

// match reports the last mark of a line, if it is news, and reports whether the line has one.
func (m *progressMarks) match(line []byte) bool {
	line = text.StripANSI(line)
	for _, groups := range slices.Backward(m.marks.FindAllSubmatch(line, -1)) {
		total, wrong := 100.0, error(nil)
		done, err := markNumber(groups[1])
		if len(groups) > 2 {
			total, wrong = markNumber(groups[2])
		}
		if err != nil || wrong != nil || total <= 0 || done < 0 || done > total {
			continue
		}
		if done != m.done || total != m.total {
			m.done, m.total = done, total
			m.report(done, total, string(bytes.TrimSpace(line)))
		}
		return true
	}
	return false
}

// markNumber reads 12, 12.5 and 1,234.
func markNumber(b []byte) (float64, error) {
	return strconv.ParseFloat(string(bytes.ReplaceAll(bytes.TrimSpace(b), []byte(","), nil)), 64)
}
