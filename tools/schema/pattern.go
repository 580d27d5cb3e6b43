package schema

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// These limit all patterns of a schema together. Most patterns compile to some dozens of instructions. With
// counts, such as (x{100}){10}, a few bytes make millions, and matching may take each of them for each byte
// of the text.
const (
	maxPatternBytes = 16 << 10
	maxInstructions = 50_000
)

// pattern is a compiled pattern.
type pattern struct {
	*regexp.Regexp
	size int // about how many instructions it has
}

// steps returns the steps of matching a text of a length in bytes. An instruction takes some 10 ns per byte,
// a step of effort 1 µs.
func (p pattern) steps(bytes int) int { return p.size * (bytes + 1) / 100 }

// patterns holds the patterns of a schema.
type patterns struct {
	all                 map[string]pattern // by their text
	bytes, instructions int                // of all together
}

// add compiles a pattern, unless all patterns together are too large.
func (p *patterns) add(text string, place []string) error {
	tooLarge := &Error{place, fmt.Sprintf("the schema explodes: its patterns are larger than %d bytes or "+
		"%d steps together", maxPatternBytes, maxInstructions)}
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

// instructions estimates the instructions of a compiled pattern, maxInstructions+1 at most.
func instructions(re *syntax.Regexp) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpCharClass:
		n += len(re.Rune) / 16 // its ranges take memory
	}
	for _, part := range re.Sub {
		n = min(n+instructions(part), maxInstructions+1)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max) + 1
	}
	return min(n, maxInstructions+1)
}
