package secrets

import (
	"bytes"
	"regexp/syntax"
	"unicode/utf8"
)

// mask stands where a secret stood.
const mask = "***"

// Stream masks the secrets of a text that comes in pieces. A nil Stream returns what it is given.
type Stream struct {
	m     *machine
	found bool // something has been masked

	held   []byte   // the text that has not been given out, when pieces are held back
	prev   rune     // the character before what is looked at next; -1 at the beginning
	paths  []path   // what may still become a match, that which began first first
	spans  []span   // what is to be masked in the text that has not been given out, apart from each other
	masked bool     // what was given out last is a Mask
	out    []byte   // what was returned last
	next   []path   // memory for step
	seen   []uint32 // by instruction: when expand came there last
	now    uint32   // of seen
}

// path is where a match stands that may come of the text so far.
type path struct {
	pc    uint32 // the instruction to go on with
	begin int    // where the match began, in the text that has not been given out; before it if that is negative
}

// span is a piece of the text.
type span struct{ begin, end int }

func newStream(m *machine) *Stream { return &Stream{m: m, prev: -1} }

// Write takes a piece of text, whole characters, and returns what is settled, valid until the next call and as long as p does not change.
func (s *Stream) Write(p []byte) []byte {
	if s == nil {
		return p
	}
	text := p
	if len(s.held) > 0 {
		text = append(s.held, p...)
	}
	s.scan(text, len(text)-len(p))
	s.expand(0, len(text)) // what is a match whatever follows is not waited for
	return s.settle(text, s.undecided(len(text)))
}

// Flush returns what was held back, because nothing follows it. The next Write begins another text.
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

// undecided is where the text begins of which it is not known whether it is to be masked.
func (s *Stream) undecided(end int) int {
	if len(s.paths) > 0 {
		return s.paths[0].begin
	}
	return end
}

// scan looks at text from a place on.
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

// candidate is the next place where a match may begin, the end of the text if there is none.
func (m *machine) candidate(text []byte, at int) int {
	for ; at+1 < len(text); at++ {
		if first, second := uint(text[at]), uint(text[at+1]); m.pairs[first<<2|second>>6]&(1<<(second&63)) != 0 {
			return at
		}
	}
	if at < len(text) && len(m.starts[text[at]]) == 0 {
		at++
	}
	return at
}

// step reads the character at a place: each path goes on or ends, and others begin.
func (s *Stream) step(text []byte, at int, r rune) {
	flags := syntax.EmptyOpContext(s.prev, r)
	s.expand(flags, at)
	begins := s.m.starts[text[at]]
	if at+1 < len(text) && s.m.candidate(text[:at+2], at) != at {
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

// expand makes of the paths those that read the next character, in next. Where one is a match, what it has read is to be masked.
func (s *Stream) expand(flags syntax.EmptyOp, at int) {
	if s.now++; s.seen == nil || s.now == 0 {
		s.seen, s.now = make([]uint32, len(s.m.prog.Inst)), 1
	}
	s.next = s.next[:0]
	for _, p := range s.paths {
		s.follow(p.pc, p.begin, flags, at)
	}
}

// follow expands one path. Of two that come to the same instruction, the one that began first came first, and is enough.
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

// mask adds a span. None ends after it.
func (s *Stream) mask(begin, end int) {
	s.found = true
	for len(s.spans) > 0 && s.spans[len(s.spans)-1].end >= begin {
		begin = min(begin, s.spans[len(s.spans)-1].begin)
		s.spans = s.spans[:len(s.spans)-1]
	}
	s.spans = append(s.spans, span{begin, end})
}

// settle gives out the text up to a place, and after it what is to be masked in any case. It holds back the rest.
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
		s.out, s.masked, at = append(s.out, text[at:end]...), false, end
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

// text is a text with its secrets masked, p itself if it has none.
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
