package secrets

import (
	"regexp/syntax"
	"unicode/utf8"
)

// machine finds all that several expressions match, from any place on. It walks over the program that package regexp runs, too, but keeps
// where each match began, whatever its end, and can stop between two characters.
type machine struct {
	prog *syntax.Prog
	// starts are the instructions where a match goes on that begins with a byte: most bytes have none.
	starts [256][]uint32
	// pairs has a bit for each two bytes that a match may begin with. Text is skipped by it.
	pairs [1 << 16 / 64]uint64
}

func newMachine(list []*syntax.Regexp) (*machine, error) {
	prog, err := syntax.Compile((&syntax.Regexp{Op: syntax.OpAlternate, Sub: list}).Simplify())
	if err != nil {
		return nil, err
	}
	m := &machine{prog: prog}
	m.walk(uint32(prog.Start), 0, func(pc uint32) {
		for _, b := range m.firstBytes(pc) {
			m.starts[b] = append(m.starts[b], pc)
			second := m.secondBytes(pc, b)
			for c := range 256 {
				if second[c] {
					m.pairs[uint(b)<<8>>6|uint(c)>>6] |= 1 << (c & 63)
				}
			}
		}
	})
	return m, nil
}

// walk calls each with the instructions that are reached from one without reading anything, where assertions of flags hold: those that
// read a character, a match, and assertions that do not hold.
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

// everything is all assertions: which of them hold is not known yet.
const everything = ^syntax.EmptyOp(0)

// reads are the instructions from one on that read the next character, whatever holds there. matched reports whether it is a match already, in
// any case if sure, else if assertions hold.
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

// firstBytes are those of the characters that an instruction may read first.
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

// leading are the first bytes of the characters beyond ASCII that an instruction reads, perhaps some more.
func leading(i *syntax.Inst) map[byte]bool {
	list := map[byte]bool{}
	if i.Op == syntax.InstRune1 || i.Op == syntax.InstRune && len(i.Rune) == 1 && syntax.Flags(i.Arg)&syntax.FoldCase == 0 {
		if r := i.Rune[0]; r >= utf8.RuneSelf {
			list[string(r)[0]] = true
		}
		return list
	}
	if i.Op == syntax.InstRune && i.Rune[len(i.Rune)-1] < utf8.RuneSelf && syntax.Flags(i.Arg)&syntax.FoldCase == 0 {
		return list
	}
	for b := 0xC2; b <= 0xF4; b++ {
		list[byte(b)] = true
	}
	return list
}

// secondBytes are the bytes that may follow b in what an instruction matches, or after it if that is all.
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
		for c := range second {
			second[c] = true
		}
	}
	return second
}

// shortest is how many characters a match has at least; most if that many or more.
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

// undecided is how many characters may be read at most without it being known whether they are in a match; -1 if there is no such number.
func (m *machine) undecided() (most int) {
	const open = -2 // it is being looked at
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
