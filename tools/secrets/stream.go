package secrets

import (
	"bytes"
	"regexp/syntax"
	"unicode/utf8"
)

// mask replaces a secret.
const mask = "***"

// Stream masks the secrets of a text that comes in pieces. A nil Stream returns its arguments. Set.Stream
// makes one.
type Stream struct {
	m     *machine
	found bool // something has been masked

	held   []byte   // text that is held back
	prev   rune     // the character before the next one; -1 at the beginning
	paths  []path   // what may still become a match, the earliest beginning first
	spans  []span   // what is to be masked in the text that has not been returned; they do not touch
	masked bool     // the last text that was returned ended with a mask
	out    []byte   // what was returned last
	next   []path   // memory for step
	seen   []uint32 // by instruction, the value of now when expand last came there
	now    uint32   // counts the calls of expand
}

// path is a match that may come of the text so far.
type path struct {
	pc uint32 // the next instruction
	// begin is where the match began, from the beginning of the text that has not been returned; negative if
	// before that.
	begin int
}

// span is a piece of the text that has not been returned.
type span struct{ begin, end int }

func newStream(m *machine) *Stream { return &Stream{m: m, prev: -1} }

// Write takes a piece of text in whole characters, and returns the text that is decided. It is valid until
// the next call, and while p does not change.
func (s *Stream) Write(p []byte) []byte {
	if s == nil {
		return p
	}
	text := p
	if len(s.held) > 0 {
		text = append(s.held, p...)
	}
	s.scan(text, len(text)-len(p))
	s.expand(0, len(text)) // a match that is complete whatever follows need not wait
	return s.settle(text, s.undecided(len(text)))
}

// Flush ends the text and returns what was held back. The next Write begins another text.
func (s *Stream) Flush() []byte {
	if s == nil {
		return nil
	}
	s.expand(syntax.EmptyOpContext(s.prev, -1), len(s.held))
	s.paths, s.prev = s.paths[:0], -1
	rest := s.settle(s.held, len(s.held))
	s.masked = false
	return rest
}

// undecided returns where the text begins that may still have to be masked.
func (s *Stream) undecided(end int) int {
	if len(s.paths) > 0 {
		return s.paths[0].begin
	}
	return end
}

// scan reads text from a position on.
func (s *Stream) scan(text []byte, at int) {
	for at < len(text) {
		if len(s.paths) == 0 {
			from := at
			if at = s.m.candidate(text, at); at > from {
				s.prev, _ = utf8.DecodeLastRune(text[:at])
			}
			if at == len(text) {
				return
			}
		}
		r, size := rune(text[at]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(text[at:])
		}
		s.step(text, at, r)
		s.prev, at = r, at+size
	}
}

// candidate returns the next position at which a match may begin, the end of the text if there is none.
func (m *machine) candidate(text []byte, at int) int {
	for ; at+1 < len(text); at++ {
		if m.pairs.has(text[at], text[at+1]) && (at+2 == len(text) || m.next.has(text[at+1], text[at+2])) {
			return at
		}
	}
	if at < len(text) && len(m.starts[text[at]]) == 0 {
		at++
	}
	return at
}

// step reads the character at a position: paths continue or end, and others begin.
func (s *Stream) step(text []byte, at int, r rune) {
	flags := syntax.EmptyOpContext(s.prev, r)
	s.expand(flags, at)
	begins := s.m.starts[text[at]]
	if at+1 < len(text) && s.m.candidate(text[:min(at+3, len(text))], at) != at {
		begins = nil
	}
	for _, pc := range begins {
		s.follow(pc, at, flags, at)
	}
	s.paths = s.paths[:0]
	for _, p := range s.next {
		if i := &s.m.prog.Inst[p.pc]; i.MatchRune(r) {
			s.paths = append(s.paths, path{i.Out, p.begin})
		}
	}
}

// expand replaces paths by those that read the next character, in next. A path that is a match becomes a
// span.
func (s *Stream) expand(flags syntax.EmptyOp, at int) {
	if s.now++; s.seen == nil || s.now == 0 {
		s.seen, s.now = make([]uint32, len(s.m.prog.Inst)), 1
	}
	s.next = s.next[:0]
	for _, p := range s.paths {
		s.follow(p.pc, p.begin, flags, at)
	}
}

// follow expands one path. If two come to the same instruction, the first one is enough, because it began
// earlier.
func (s *Stream) follow(pc uint32, begin int, flags syntax.EmptyOp, at int) {
	for s.seen[pc] != s.now {
		s.seen[pc] = s.now
		switch i := &s.m.prog.Inst[pc]; i.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			s.follow(i.Out, begin, flags, at)
			pc = i.Arg
		case syntax.InstCapture, syntax.InstNop:
			pc = i.Out
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(i.Arg)&^flags != 0 {
				return
			}
			pc = i.Out
		case syntax.InstMatch:
			s.mask(begin, at)
			return
		case syntax.InstFail:
			return
		default:
			s.next = append(s.next, path{pc, begin})
			return
		}
	}
}

// mask adds a span. No span ends after it.
func (s *Stream) mask(begin, end int) {
	s.found = true
	for len(s.spans) > 0 && s.spans[len(s.spans)-1].end >= begin {
		begin = min(begin, s.spans[len(s.spans)-1].begin)
		s.spans = s.spans[:len(s.spans)-1]
	}
	s.spans = append(s.spans, span{begin, end})
}

// settle returns the text up to a position, masked, and any span that begins there. It holds back the rest.
func (s *Stream) settle(text []byte, until int) []byte {
	if len(s.spans) == 0 && until == len(text) {
		s.held = s.held[:0]
		s.masked = s.masked && len(text) == 0
		return text
	}
	s.out = s.out[:0]
	at, used := 0, 0
	for {
		if used < len(s.spans) && s.spans[used].begin <= at {
			if !s.masked {
				s.out, s.masked = append(s.out, mask...), true
			}
			at, used = max(at, s.spans[used].end), used+1
			continue
		}
		end := until
		if used < len(s.spans) {
			end = min(end, s.spans[used].begin)
		}
		if end <= at {
			break
		}
		s.out = append(s.out, text[at:end]...)
		s.masked = false
		at = end
	}
	s.held = append(s.held[:0], text[at:]...)
	s.spans = append(s.spans[:0], s.spans[used:]...)
	for i := range s.paths {
		s.paths[i].begin -= at
	}
	for i := range s.spans {
		s.spans[i] = span{s.spans[i].begin - at, s.spans[i].end - at}
	}
	return s.out
}

// text returns a text with its secrets masked, p itself if it has none.
func (m *machine) text(p []byte) []byte {
	s := newStream(m)
	settled := s.Write(p)
	if !s.found && len(s.paths) == 0 {
		return p
	}
	whole := bytes.Clone(settled)
	whole = append(whole, s.Flush()...)
	if !s.found {
		return p
	}
	return whole
}
