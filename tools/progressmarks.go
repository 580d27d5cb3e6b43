package tools

import (
	"bytes"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
)

// checkProgress checks the key "progress". Parsing finds all that is wrong with a regular expression; compiling it takes twice
// as long, and waits for the first call.
func checkProgress(pattern string) error {
	if pattern == "" {
		return nil
	}
	re, err := syntax.Parse(pattern, syntax.Perl) // as regexp.Compile does
	if err != nil {
		return &ConfigError{Key: "progress", Problem: err.Error(), Allowed: "a regular expression as Go knows them (RE2)"}
	}
	if n := re.MaxCap(); n != 1 && n != 2 {
		return &ConfigError{Key: "progress", Problem: fmt.Sprintf("has %d groups", n), Allowed: "one group (percent) or two (done, total)"}
	}
	return nil
}

// compileProgress compiles a pattern that was checked; nil for none.
func compileProgress(pattern string) *regexp.Regexp {
	if pattern == "" {
		return nil
	}
	return regexp.MustCompile(pattern)
}

// progressMarks finds how far a command is in what it prints. It looks at whole lines, and at the
// unfinished one only where a \r has begun it: that is a line that is redrawn, and its end comes late or never.
// Of one read only the last mark is reported.
type progressMarks struct {
	marks  *regexp.Regexp
	report func(done, total float64, message string)

	line   []byte // the unfinished line, its last maxMarkLine bytes
	redraw bool   // a \r has begun it
	done   float64
	total  float64
}

// maxMarkLine is how much of a line is searched for a mark: no progress bar is longer.
const maxMarkLine = 4 << 10

// scan looks for marks in what has come next.
func (m *progressMarks) scan(text []byte) {
	end := bytes.LastIndexAny(text, "\r\n")
	if end < 0 {
		m.keep(text)
	} else {
		m.redraw = text[end] == '\r'
		head := text[:end]
		for {
			start := bytes.LastIndexAny(head, "\r\n") + 1
			if start == 0 {
				m.keep(head)
				m.match(m.line)
				break
			}
			if m.match(head[start:]) {
				break
			}
			head = head[:start-1]
		}
		m.line = m.line[:0]
		m.keep(text[end+1:])
	}
	if m.redraw {
		m.match(m.line)
	}
}

// keep adds to the unfinished line.
func (m *progressMarks) keep(text []byte) {
	m.line = append(m.line, text[max(0, len(text)-maxMarkLine):]...)
	if n := len(m.line) - maxMarkLine; n > 0 {
		m.line = m.line[:copy(m.line, m.line[n:])]
	}
}

// match reports the last mark of a line, if it is news, and tells whether the line has one.
func (m *progressMarks) match(line []byte) bool {
	if len(line) == 0 {
		return false
	}
	line = stripANSI(line)
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
