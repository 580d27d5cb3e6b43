package schema

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// The patterns of a schema, all together. Written out, most have some dozens of instructions; with counts, such as (x{100}){10}, a few
// bytes have millions, and matching takes each of them for each byte of the text.
const (
	maxPatternBytes = 16 << 10
	maxInstructions = 50_000
)

// pattern is a pattern and how many instructions it is compiled to, about.
type pattern struct {
	*regexp.Regexp
	size int
}

// steps are those of matching a text of so many bytes. An instruction and a byte take some 10 ns, a step of effort 1 µs.
func (p pattern) steps(bytes int) int { return p.size * (bytes + 1) / 100 }

// patterns are those of a schema, by their text.
type patterns struct {
	all                 map[string]pattern
	bytes, instructions int // the sums over all
}

// add compiles a pattern, unless all of them together are too large.
func (p *patterns) add(text string, place []string) error {
	tooLarge := &Error{place, fmt.Sprintf("the schema explodes: its patterns are larger than %d bytes or %d steps together", maxPatternBytes, maxInstructions)}
	if p.bytes += len(text); p.bytes > maxPatternBytes {
		return tooLarge
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return &Error{place, fmt.Sprintf("%q is not a regular expression: %v", clip(text), err)}
	}
	size := instructions(parsed)
	if p.instructions += size; p.instructions > maxInstructions {
		return tooLarge
	}
	p.all[text] = pattern{regexp.MustCompile(text), size}
	return nil
}

// instructions are about those of a compiled pattern, and not many more than maxInstructions.
func instructions(re *syntax.Regexp) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpCharClass:
		n += len(re.Rune) / 16 // the ends of its ranges: for their memory
	}
	for _, part := range re.Sub {
		n = min(n+instructions(part), maxInstructions+1)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max) + 1
	}
	return min(n, maxInstructions+1)
}
