package command

import (
	"bytes"
	"fmt"
	"regexp"
	"sync"
	"time"

	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/text"
)

// checkWatch checks the keys "ready" and "watch".
func checkWatch(c *config.Command) error {
	names := map[string]bool{}
	check := func(key, pattern string) error {
		re, err := text.CompilePattern(pattern)
		switch {
		case err != nil:
			return &config.Error{Key: key, Problem: err.Error(),
				Allowed: "a regular expression as Go knows them (RE2)"}
		case re.MatchString(""):
			return &config.Error{Key: key, Problem: fmt.Sprintf("%q matches every line", pattern),
				Allowed: "an expression that an empty line does not match"}
		}
		return nil
	}
	if c.Ready != "" {
		if err := check("ready", c.Ready); err != nil {
			return err
		}
	}
	for i, w := range c.Watch {
		if err := check(fmt.Sprintf("watch[%d].match", i), w.Match); err != nil {
			return err
		}
		if names[w.Name()] {
			return &config.Error{Key: fmt.Sprintf("watch[%d].as", i),
				Problem: fmt.Sprintf("%q is there twice", w.Name()), Allowed: "another name"}
		}
		names[w.Name()] = true
	}
	return nil
}

// watcher looks for what its tool watches for in the output of one run. Each line counts once for each
// pattern. An unfinished line is searched, too, once it has not grown for a while: it may be a prompt, which
// has no newline; but it may also be half a line, whose other half is on its way.
//
// The two streams write to it in goroutines of their own, and timers look at their unfinished lines.
type watcher struct {
	patterns []watched
	began    time.Time
	matched  func(name, line string, limit int) // Call.Match
	isReady  func(after time.Duration, line string)

	mu    sync.Mutex // held while they are called, so that the matches come in order
	ready bool
	over  bool // the command has ended: its call is answered with how
}

// watched is one pattern.
type watched struct {
	re     *regexp.Regexp
	needed [][]byte // lines without any of these texts are skipped; nil = no line is
	name   string
	limit  int // 0: it is the key "ready"
}

// newWatcher makes a watcher for a call that starts now; nil if its tool watches for nothing.
func newWatcher(c *config.Command, in *tools.Call) *watcher {
	w := &watcher{began: time.Now(), matched: in.Match, isReady: in.Ready}
	if c.Ready != "" {
		w.patterns = append(w.patterns, watched{re: regexp.MustCompile(c.Ready),
			needed: neededTexts(c.Ready)})
	}
	for _, one := range c.Watch {
		w.patterns = append(w.patterns,
			watched{regexp.MustCompile(one.Match), neededTexts(one.Match), one.Name(), *one.Limit})
	}
	if len(w.patterns) == 0 {
		return nil
	}
	return w
}

// found passes on a match. mu is held.
func (w *watcher) found(p *watched, line string) {
	switch {
	case p.limit > 0:
		w.matched(p.name, line, p.limit)
	case !w.ready:
		w.ready = true
		if !w.over {
			w.isReady(time.Since(w.began), line)
		}
	}
}

const (
	// maxWatchedLine is how much of a line is searched, from its beginning, in bytes.
	maxWatchedLine = 4 << 10
	// settleTime is how long an unfinished line must not grow before it is searched. A caller waits that much
	// longer for a prompt, and for nothing else.
	settleTime = 100 * time.Millisecond
)

// watchedStream is the output of one stream on its way to a watcher.
type watchedStream struct {
	to *watcher

	// Guarded by to.mu.
	line    []byte // the unfinished line, its first maxWatchedLine bytes
	matched []bool // the patterns that have already matched that line
	timer   *time.Timer
	ended   bool
}

// scan takes the next output.
func (s *watchedStream) scan(output []byte) {
	s.to.mu.Lock()
	defer s.to.mu.Unlock()
	for len(output) > 0 {
		end := bytes.IndexAny(output, lineEnds)
		if end < 0 {
			break
		}
		line := output[:end]
		if len(s.line) > 0 {
			s.keep(line)
			line = s.line
		}
		s.search(line)
		s.line = s.line[:0]
		clear(s.matched)
		output = output[end+1:]
	}
	s.keep(output)
	switch {
	case len(s.line) == 0:
	case s.timer == nil:
		s.timer = time.AfterFunc(settleTime, s.settle)
	default:
		s.timer.Reset(settleTime)
	}
}

// keep appends to the unfinished line.
func (s *watchedStream) keep(output []byte) {
	s.line = append(s.line, output[:min(len(output), maxWatchedLine-len(s.line))]...)
}

// settle searches the unfinished line.
func (s *watchedStream) settle() {
	s.to.mu.Lock()
	defer s.to.mu.Unlock()
	if !s.ended {
		s.search(s.line)
	}
}

// finish ends the stream, and searches its last line if that has no newline.
func (s *watchedStream) finish() {
	s.to.mu.Lock()
	defer s.to.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.to.over = true
	s.search(s.line)
	s.ended = true
}

// search looks for the patterns in a line, whole or as far as it has come.
func (s *watchedStream) search(line []byte) {
	line = line[:min(len(line), maxWatchedLine)]
	if bytes.IndexByte(line, '\x1b') >= 0 { // as with "ansi: keep"
		line = text.StripANSI(line)
	}
	for i := range s.to.patterns {
		p := &s.to.patterns[i]
		if len(line) == 0 || p.limit == 0 && s.to.ready || s.matched != nil && s.matched[i] ||
			p.needed != nil && !containsAny(line, p.needed) || !p.re.Match(line) {
			continue
		}
		if s.matched == nil {
			s.matched = make([]bool, len(s.to.patterns))
		}
		s.matched[i] = true
		s.to.found(p, string(bytes.TrimSpace(line)))
	}
}

// lineBuffer splits output into lines. A \r without \n ends a line, too, so that a moving progress bar can be
// seen. The last line, and a line longer than maxHeldLine, may be emitted unfinished.
type lineBuffer struct {
	held []byte // the unfinished line
	ends []int
}

// maxHeldLine is the longest line that "output: lines" keeps together, in bytes.
const maxHeldLine = 64 << 10

// add takes the next text. It emits the lines that are complete now, with the positions of their ends.
func (l *lineBuffer) add(text []byte, emit func(text []byte, ends []int)) {
	from := max(len(l.held)-1, 0) // a \r may stand there
	l.held = append(l.held, text...)
	l.ends = l.ends[:0]
	end := 0
	// line by line, so that each search for \r stays within a line.
	for line := range bytes.Lines(l.held[from:]) {
		for n := lineEnd(line); n > 0; n = lineEnd(line) {
			line, from = line[n:], from+n
			end = from
			l.ends = append(l.ends, end)
		}
	}
	if len(l.held)-end > maxHeldLine {
		end = len(l.held)
		l.ends = append(l.ends, end)
	}
	if end > 0 {
		emit(l.held[:end], l.ends)
		l.held = append(l.held[:0], l.held[end:]...)
	}
}

// flush emits the unfinished line.
func (l *lineBuffer) flush(emit func(text []byte, ends []int)) {
	if len(l.held) > 0 {
		emit(l.held, []int{len(l.held)})
	}
}

// lineEnd returns the length of the first line in text, 0 if that line is unfinished. text has no \n except
// at its end. A \r at the very end waits for the next byte.
func lineEnd(text []byte) int {
	if i := bytes.IndexByte(text, '\r') + 1; i > 0 && i < len(text) && text[i] != '\n' {
		return i
	}
	if bytes.HasSuffix(text, []byte("\n")) {
		return len(text)
	}
	return 0
}
