package secrets

import (
	"regexp/syntax"
	"unicode/utf8"
)

// machine finds all matches of several expressions, also those that overlap. It runs the same program as
// package regexp, but keeps where each match began, and can stop between any two characters.
type machine struct {
	prog *syntax.Prog
	// starts holds, by byte, the instructions that may read it first. Most bytes have none.
	starts [256][]uint32
	// pairs has the two bytes with which a match may begin, and next those that may be its second and third.
	// Nearly all text is skipped by pairs: with five values, a byte takes 1.8 ns instead of 11
	// (BenchmarkStream). What is left is skipped by next, which halves that.
	pairs, next bytePairs
}

// bytePairs is a set of two bytes.
type bytePairs [1 << 16 / 64]uint64

func (p *bytePairs) has(a, b byte) bool { return p[uint(a)<<2|uint(b)>>6]&(1<<(b&63)) != 0 }

// add adds the pairs of one byte and each of the others.
func (p *bytePairs) add(a byte, others [256]bool) {
	for b, is := range others {
		if is {
			p[uint(a)<<2|uint(b)>>6] |= 1 << (b & 63)
		}
	}
}

func newMachine(list []*syntax.Regexp) (*machine, error) {
	prog, err := syntax.Compile((&syntax.Regexp{Op: syntax.OpAlternate, Sub: list}).Simplify())
	if err != nil {
		return nil, err
	}
	m, seen := &machine{prog: prog}, map[uint32]bool{}
	m.walk(uint32(prog.Start), 0, func(pc uint32) {
		for _, b := range m.firstBytes(pc) {
			m.starts[b] = append(m.starts[b], pc)
			m.pairs.add(b, m.secondBytes(pc, b))
			m.addNext(pc, b, seen)
		}
	})
	return m, nil
}

// walk calls each with the instructions that are reached from pc without reading anything, if the assertions
// in flags hold: those that read a character, a match, and assertions that do not hold.
func (m *machine) walk(pc uint32, flags syntax.EmptyOp, each func(pc uint32)) {
	seen := map[uint32]bool{}
	var visit func(pc uint32)
	visit = func(pc uint32) {
		if seen[pc] {
			return
		}
		seen[pc] = true
		switch i := &m.prog.Inst[pc]; i.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			visit(i.Out)
			visit(i.Arg)
		case syntax.InstCapture, syntax.InstNop:
			visit(i.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(i.Arg)&^flags == 0 {
				visit(i.Out)
			} else {
				each(pc)
			}
		case syntax.InstFail:
		default:
			each(pc)
		}
	}
	visit(pc)
}

// everything has all assertions: it is unknown which of them will hold.
const everything = ^syntax.EmptyOp(0)

// reads returns the instructions that may read the next character from pc on. matched reports whether pc is a
// match already: surely if sure is set, otherwise if some assertions hold.
func (m *machine) reads(pc uint32, sure bool) (list []uint32, matched bool) {
	m.walk(pc, everything, func(pc uint32) {
		if m.prog.Inst[pc].Op == syntax.InstMatch {
			matched = !sure
		} else {
			list = append(list, pc)
		}
	})
	if sure {
		m.walk(pc, 0, func(pc uint32) { matched = matched || m.prog.Inst[pc].Op == syntax.InstMatch })
	}
	return list, matched
}

// firstBytes returns the first bytes of the characters that may be read from an instruction on.
func (m *machine) firstBytes(pc uint32) (list []byte) {
	var first [256]bool
	reads, _ := m.reads(pc, false)
	for _, pc := range reads {
		i := &m.prog.Inst[pc]
		for b := range rune(utf8.RuneSelf) {
			first[b] = first[b] || i.MatchRune(b)
		}
		for b := range leading(i) {
			first[b] = true
		}
	}
	for b, is := range first {
		if is {
			list = append(list, byte(b))
		}
	}
	return list
}

// leading returns the first bytes of the characters beyond ASCII that an instruction reads, perhaps a few
// more.
func leading(i *syntax.Inst) map[byte]bool {
	list := map[byte]bool{}
	if i.Op == syntax.InstRune1 ||
		i.Op == syntax.InstRune && len(i.Rune) == 1 && syntax.Flags(i.Arg)&syntax.FoldCase == 0 {
		if r := i.Rune[0]; r >= utf8.RuneSelf {
			list[string(r)[0]] = true
		}
		return list
	}
	if i.Op == syntax.InstRune && i.Rune[len(i.Rune)-1] < utf8.RuneSelf &&
		syntax.Flags(i.Arg)&syntax.FoldCase == 0 {
		return list
	}
	for b := 0xC2; b <= 0xF4; b++ {
		list[byte(b)] = true
	}
	return list
}

// secondBytes returns the bytes that may follow b from an instruction on: in a match, or after a match that
// ends with b.
func (m *machine) secondBytes(pc uint32, b byte) (second [256]bool) {
	any := b >= utf8.RuneSelf
	reads, _ := m.reads(pc, false)
	for _, pc := range reads {
		i := &m.prog.Inst[pc]
		if any || !i.MatchRune(rune(b)) {
			continue
		}
		_, matched := m.reads(i.Out, false)
		any = any || matched
		for _, c := range m.firstBytes(i.Out) {
			second[c] = true
		}
	}
	if any {
		return anyByte
	}
	return second
}

// addNext adds to next what may follow b from an instruction on. seen has the instructions that have been
// followed.
func (m *machine) addNext(pc uint32, b byte, seen map[uint32]bool) {
	if b >= utf8.RuneSelf { // the second byte continues the character
		for c := 0x80; c < 0xC0; c++ {
			m.next.add(byte(c), anyByte)
		}
		return
	}
	reads, _ := m.reads(pc, false)
	for _, pc := range reads {
		i := &m.prog.Inst[pc]
		if !i.MatchRune(rune(b)) || seen[i.Out] {
			continue
		}
		seen[i.Out] = true
		after, matched := m.reads(i.Out, false)
		for _, pc := range after {
			for _, c := range m.firstBytes(pc) {
				m.next.add(c, m.secondBytes(pc, c))
			}
		}
		for c := 0; matched && c < 256; c++ {
			m.next.add(byte(c), anyByte)
		}
	}
}

var anyByte = func() (list [256]bool) {
	for b := range list {
		list[b] = true
	}
	return list
}()

// shortest returns the least number of characters in a match, at most most.
func (m *machine) shortest(most int) int {
	at := map[uint32]bool{uint32(m.prog.Start): true}
	for n := range most {
		next := map[uint32]bool{}
		for pc := range at {
			reads, matched := m.reads(pc, false)
			if matched {
				return n
			}
			for _, pc := range reads {
				next[m.prog.Inst[pc].Out] = true
			}
		}
		at = next
	}
	return most
}

// undecided returns how many characters may be read, at most, before it is known whether they are in a match;
// -1 without a limit.
func (m *machine) undecided() (most int) {
	const open = -2 // its number is being computed
	known := map[uint32]int{}
	var from func(pc uint32) int
	from = func(pc uint32) int {
		n, ok := known[pc]
		switch {
		case n == open:
			return -1
		case ok:
			return n
		}
		reads, sure := m.reads(pc, true)
		if !sure {
			known[pc] = open
			for _, pc := range reads {
				after := from(m.prog.Inst[pc].Out)
				if after < 0 {
					return -1
				}
				n = max(n, 1+after)
			}
		}
		known[pc] = n
		return n
	}
	for pc := range m.prog.Inst {
		switch m.prog.Inst[pc].Op {
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			n := from(m.prog.Inst[pc].Out)
			if n < 0 {
				return -1
			}
			most = max(most, n)
		}
	}
	return most
}
