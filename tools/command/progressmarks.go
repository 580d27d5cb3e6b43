package command

import (
	"bytes"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"unicode"
	"unicode/utf8"

	"runnel/tools/config"
	"runnel/tools/text"
)

// checkProgress checks the key "progress". Parsing finds all mistakes in a regular expression. Compiling
// takes twice as long, and waits for the first call.
func checkProgress(pattern string) error {
	if pattern == "" {
		return nil
	}
	re, err := syntax.Parse(pattern, syntax.Perl) // as regexp.Compile does
	if err != nil {
		return &config.Error{Key: "progress", Problem: err.Error(),
			Allowed: "a regular expression as Go knows them (RE2)"}
	}
	if n := re.MaxCap(); n != 1 && n != 2 {
		return &config.Error{Key: "progress", Problem: fmt.Sprintf("has %d groups", n),
			Allowed: "one group (percent) or two (done, total)"}
	}
	return nil
}

// neededByte returns a byte that every match of an expression contains, 0 if there is none. It prefers bytes
// that are rare in text.
func neededByte(pattern string) (needed byte) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	for _, b := range neededBytes(re) {
		if rare := b != ' ' && !unicode.IsLetter(rune(b)) && !unicode.IsDigit(rune(b)); rare || needed == 0 {
			needed = b
		}
	}
	return needed
}

// neededBytes returns ASCII characters that every match of an expression contains.
func neededBytes(re *syntax.Regexp) (needed []byte) {
	switch {
	case re.Op == syntax.OpLiteral && re.Flags&syntax.FoldCase == 0:
		for _, r := range re.Rune {
			if r < utf8.RuneSelf {
				needed = append(needed, byte(r))
			}
		}
	case re.Op == syntax.OpConcat, re.Op == syntax.OpCapture, re.Op == syntax.OpPlus,
		re.Op == syntax.OpRepeat && re.Min > 0:
		for _, sub := range re.Sub {
			needed = append(needed, neededBytes(sub)...)
		}
	}
	return needed
}

// progressMarks finds progress in a command's output. It searches whole lines, and the unfinished line only
// if a \r has begun it: such a line is being redrawn, and its end comes late or never. Of each read, only the
// last mark is reported.
type progressMarks struct {
	marks  *regexp.Regexp
	needed byte // lines without it are skipped; 0 = no line is
	report func(done, total float64, message string)

	line   []byte // the unfinished line, its last maxMarkLine bytes
	redraw bool   // a \r has begun it
	done   float64
	total  float64
}

// maxMarkLine is how much of a line is searched, in bytes: no progress bar is longer.
const maxMarkLine = 4 << 10

// newProgressMarks takes a pattern that checkProgress has accepted.
func newProgressMarks(pattern string, report func(done, total float64, message string)) *progressMarks {
	return &progressMarks{marks: regexp.MustCompile(pattern), needed: neededByte(pattern), report: report}
}

const lineEnds = "\r\n"

// scan looks for the last mark in the next piece of output, from its end on.
func (m *progressMarks) scan(text []byte) {
	end := bytes.LastIndexAny(text, lineEnds)
	if end < 0 {
		m.keep(text)
	} else {
		m.redraw = text[end] == '\r'
		first := bytes.IndexAny(text, lineEnds)
		if !m.scanLines(text[first:end]) {
			m.keep(text[:first])
			m.match(m.line)
		}
		m.line = m.line[:0]
		m.keep(text[end+1:])
	}
	if m.redraw {
		m.match(m.line)
	}
}

// scanLines searches whole lines from the last one on, and reports whether one has a mark. It skips lines
// without the needed byte: searching every line of a log took twelve times as long as reading the log.
func (m *progressMarks) scanLines(text []byte) bool {
	for len(text) > 0 {
		stop := len(text)
		if m.needed != 0 {
			at := bytes.LastIndexByte(text, m.needed)
			if at < 0 {
				return false
			}
			if n := bytes.IndexAny(text[at:], lineEnds); n >= 0 {
				stop = at + n
			}
		}
		start := bytes.LastIndexAny(text[:stop], lineEnds) + 1
		if m.match(text[start:stop]) {
			return true
		}
		text = text[:max(start-1, 0)]
	}
	return false
}

// keep appends to the unfinished line.
func (m *progressMarks) keep(text []byte) {
	m.line = append(m.line, text[max(0, len(text)-maxMarkLine):]...)
	if n := len(m.line) - maxMarkLine; n > 0 {
		m.line = m.line[:copy(m.line, m.line[n:])]
	}
}

// match reports whether a line has a mark. The last one is passed on if it differs from the one before.
func (m *progressMarks) match(line []byte) bool {
	if len(line) == 0 || m.needed != 0 && bytes.IndexByte(line, m.needed) < 0 {
		return false
	}
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

// markNumber parses numbers such as 12, 12.5 and 1,234.
func markNumber(b []byte) (float64, error) {
	return strconv.ParseFloat(string(bytes.ReplaceAll(bytes.TrimSpace(b), []byte(","), nil)), 64)
}

// maxNeeded is how many texts are looked for in a line before its pattern is: for more, the pattern is as
// quick.
const maxNeeded = 8

// neededTexts returns texts of which every match of an expression contains one; nil if there are none, or too
// many. Lines without any are skipped: a log in which ERROR|FATAL is rare is searched ten times as fast.
func neededTexts(pattern string) [][]byte {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil
	}
	return neededOf(re)
}

func neededOf(re *syntax.Regexp) (needed [][]byte) {
	switch {
	case re.Op == syntax.OpLiteral && re.Flags&syntax.FoldCase == 0 &&
		!slices.Contains(re.Rune, utf8.RuneError): // which bytes match that are not UTF-8
		return [][]byte{[]byte(string(re.Rune))}
	case re.Op == syntax.OpCapture, re.Op == syntax.OpPlus, re.Op == syntax.OpRepeat && re.Min > 0:
		return neededOf(re.Sub[0])
	case re.Op == syntax.OpConcat: // that whose shortest text is the longest, since it is the rarest
		for _, sub := range re.Sub {
			if texts := neededOf(sub); shortest(texts) > shortest(needed) {
				needed = texts
			}
		}
	case re.Op == syntax.OpAlternate:
		for _, sub := range re.Sub {
			texts := neededOf(sub)
			if needed = append(needed, texts...); len(texts) == 0 || len(needed) > maxNeeded {
				return nil
			}
		}
	}
	return needed
}

// shortest returns the length of the shortest text, 0 if there is none.
func shortest(texts [][]byte) int {
	n := 0
	for i, text := range texts {
		if i == 0 || len(text) < n {
			n = len(text)
		}
	}
	return n
}

// containsAny reports whether a line contains one of the texts.
func containsAny(line []byte, texts [][]byte) bool {
	return slices.ContainsFunc(texts, func(text []byte) bool { return bytes.Contains(line, text) })
}
